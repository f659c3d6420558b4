/**
 * Workloads: plan, launch, change, read.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { limits } from '../limits.ts';
import {
  body,
  failures,
  idempotent,
  json,
  may,
  pageQuery,
  workloadParams,
} from '../route-parts.ts';
import {
  eventPageSchema,
  launchSchema,
  logChunkSchema,
  planSchema,
  workloadPageSchema,
  workloadSchema,
} from '../workloads.ts';

const member = may('member', 'workloads');
const viewer = may('viewer', 'workloads');

export const workloadRoutes = {
  plan: defineRoute(may('viewer', 'workloads', { reads: true }), {
    method: 'post',
    path: '/v1/plan',
    request: body(launchSchema),
    responses: { 200: json('What a launch would do, and why', planSchema), ...failures },
  }),
  launch: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads',
    request: { ...body(launchSchema), headers: idempotent },
    responses: { 201: json('Recorded', workloadSchema), ...failures },
  }),
  listWorkloads: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads',
    request: { query: pageQuery.extend({ deleted: z.enum(['true', 'false']).optional() }) },
    responses: { 200: json('Newest first', workloadPageSchema), ...failures },
  }),
  showWorkload: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}',
    request: { params: workloadParams },
    responses: { 200: json('The workload', workloadSchema), ...failures },
  }),
  stopWorkload: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads/{workload}/stop',
    request: { params: workloadParams, headers: idempotent },
    responses: { 202: json('Accepted', workloadSchema), ...failures },
  }),
  startWorkload: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads/{workload}/start',
    request: { params: workloadParams, headers: idempotent },
    responses: { 202: json('Accepted', workloadSchema), ...failures },
  }),
  deleteWorkload: defineRoute(member, {
    method: 'delete',
    path: '/v1/workloads/{workload}',
    request: { params: workloadParams },
    responses: { 202: json('Accepted', workloadSchema), ...failures },
  }),
  listEvents: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}/events',
    request: { params: workloadParams, query: pageQuery },
    responses: { 200: json('The timeline, oldest first', eventPageSchema), ...failures },
  }),
  readLogs: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}/logs',
    request: {
      params: workloadParams,
      query: z.object({
        offset: z.coerce.number().int().optional().openapi({
          description: 'Byte to read from; negative counts from the end.',
        }),
        replica: z.coerce.number().int().min(0).max(limits.replicas).optional().openapi({
          description: 'Of an endpoint with several: which one; else the first that has a run.',
        }),
      }),
    },
    responses: { 200: json('Output of the current run', logChunkSchema), ...failures },
  }),
} as const;
