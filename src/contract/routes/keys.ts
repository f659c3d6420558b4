/**
 * Endpoint keys.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { body, failures, idempotent, json, may, nothing, workloadParams } from '../route-parts.ts';
import { keyListSchema, keyRequestSchema, newKeySchema } from '../workloads.ts';

const member = may('member', 'workloads');
const viewer = may('viewer', 'workloads');
const keyParams = workloadParams.extend({ key_id: z.string().max(26) });

export const keyRoutes = {
  createKey: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads/{workload}/keys',
    request: { ...body(keyRequestSchema), params: workloadParams, headers: idempotent },
    responses: { 201: json('The key, shown once', newKeySchema), ...failures },
  }),
  listKeys: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}/keys',
    request: { params: workloadParams },
    responses: { 200: json('Its keys, without their secrets', keyListSchema), ...failures },
  }),
  revokeKey: defineRoute(member, {
    method: 'delete',
    path: '/v1/workloads/{workload}/keys/{key_id}',
    request: { params: keyParams },
    responses: { 204: nothing, ...failures },
  }),
} as const;
