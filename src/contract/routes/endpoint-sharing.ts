/**
 * Endpoints that their owners opened to others, and keys by the name of a model.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import {
  endpointSharingChangeSchema,
  endpointSharingSchema,
  modelKeyListSchema,
  modelKeyRequestSchema,
  modelKeySchema,
  newModelKeySchema,
  openModelListSchema,
} from '../endpoint-sharing.ts';
import { requestLimitChangeSchema } from '../request-limits.ts';
import { body, failures, idempotent, json, may, nothing, workloadParams } from '../route-parts.ts';

const admin = may('tenant-admin', 'workloads');
const member = may('member', 'workloads');
const viewer = may('viewer', 'workloads');
const keyParams = z.object({ key_id: z.string().max(26) });

export const endpointSharingRoutes = {
  showEndpointSharing: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}/sharing',
    request: { params: workloadParams },
    responses: { 200: json('To whom it is open', endpointSharingSchema), ...failures },
  }),
  shareEndpoint: defineRoute(admin, {
    method: 'put',
    path: '/v1/workloads/{workload}/sharing',
    request: { ...body(endpointSharingChangeSchema), params: workloadParams },
    responses: { 200: json('To whom it is open now', endpointSharingSchema), ...failures },
  }),
  listOpenModels: defineRoute(viewer, {
    method: 'get',
    path: '/v1/open-models',
    request: {},
    responses: {
      200: json("Others' endpoints that take your tenant's prompts", openModelListSchema),
      ...failures,
    },
  }),
  createModelKey: defineRoute(member, {
    method: 'post',
    path: '/v1/model-keys',
    request: { ...body(modelKeyRequestSchema), headers: idempotent },
    responses: { 201: json('The key, shown once', newModelKeySchema), ...failures },
  }),
  listModelKeys: defineRoute(viewer, {
    method: 'get',
    path: '/v1/model-keys',
    request: {},
    responses: {
      200: json("Your tenant's keys, without their secrets", modelKeyListSchema),
      ...failures,
    },
  }),
  limitModelKey: defineRoute(member, {
    method: 'put',
    path: '/v1/model-keys/{key_id}/limits',
    request: { ...body(requestLimitChangeSchema), params: keyParams },
    responses: { 200: json('The key, with the new limits', modelKeySchema), ...failures },
  }),
  revokeModelKey: defineRoute(member, {
    method: 'delete',
    path: '/v1/model-keys/{key_id}',
    request: { params: keyParams },
    responses: { 204: nothing, ...failures },
  }),
} as const;
