/**
 * Limits on requests: of users, set by who administers them, and of endpoints, set by their owners.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { limitedListSchema, limitedSchema, requestLimitChangeSchema } from '../request-limits.ts';
import { body, failures, json, may, workloadParams } from '../route-parts.ts';
import { userParams } from './users.ts';

const ofTenant = z.object({
  tenant: z.string().max(64).optional().openapi({ description: 'Of this tenant; your own.' }),
});

export const requestLimitRoutes = {
  listRequestLimits: defineRoute(may('viewer', 'workloads'), {
    method: 'get',
    path: '/v1/request-limits',
    request: { query: ofTenant },
    responses: {
      200: json('Of endpoints and users; of other users for their admins alone', limitedListSchema),
      ...failures,
    },
  }),
  setUserLimits: defineRoute(may('tenant-admin', 'accounts'), {
    method: 'put',
    path: '/v1/users/{user}/limits',
    request: { ...body(requestLimitChangeSchema), params: userParams },
    responses: { 200: json('Over all their keys, after the change', limitedSchema), ...failures },
  }),
  setModelLimits: defineRoute(may('member', 'workloads'), {
    method: 'put',
    path: '/v1/workloads/{workload}/limits',
    request: { ...body(requestLimitChangeSchema), params: workloadParams },
    responses: { 200: json('Over all who ask it, after the change', limitedSchema), ...failures },
  }),
} as const;
