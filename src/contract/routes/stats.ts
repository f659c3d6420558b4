/**
 * What workloads use, and when they are stopped for being unused.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { body, failures, json, may, workloadParams } from '../route-parts.ts';
import { idleRequestSchema, stats_ranges, statsSchema } from '../stats.ts';
import { workloadSchema } from '../workloads.ts';

export const statsRoutes = {
  readStats: defineRoute(may('viewer', 'workloads'), {
    method: 'get',
    path: '/v1/workloads/{workload}/stats',
    request: {
      params: workloadParams,
      query: z.object({
        range: z.enum(stats_ranges).optional().openapi({
          description: 'The last hour, every 10 s, where left out; longer ones every 5 minutes.',
        }),
      }),
    },
    responses: { 200: json('What it used, oldest first', statsSchema), ...failures },
  }),
  setIdlePolicy: defineRoute(may('member', 'workloads'), {
    method: 'put',
    path: '/v1/workloads/{workload}/idle',
    request: { params: workloadParams, ...body(idleRequestSchema) },
    responses: { 200: json('The workload', workloadSchema), ...failures },
  }),
} as const;
