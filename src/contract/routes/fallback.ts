/**
 * Fallbacks of a workload, and making room for one that waits.
 */
import { defineRoute } from '../auth.ts';
import { fallbackRequestSchema } from '../fallback.ts';
import { roomMadeSchema } from '../make-room.ts';
import { body, failures, json, may, workloadParams } from '../route-parts.ts';
import { workloadSchema } from '../workloads.ts';

const member = may('member', 'workloads');

export const fallbackRoutes = {
  setFallback: defineRoute(member, {
    method: 'put',
    path: '/v1/workloads/{workload}/fallback',
    request: { params: workloadParams, ...body(fallbackRequestSchema) },
    responses: { 200: json('The workload', workloadSchema), ...failures },
  }),
  makeRoom: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads/{workload}/make-room',
    request: { params: workloadParams },
    responses: {
      202: json(
        'Which idle endpoints are being stopped; none where that would make no room',
        roomMadeSchema,
      ),
      ...failures,
    },
  }),
} as const;
