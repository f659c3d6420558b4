/**
 * Secrets of the tenant.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { body, failures, json, may, nothing } from '../route-parts.ts';
import { secretListSchema, secretNameSchema, secretSchema, secretValueSchema } from '../secrets.ts';

const admin = may('tenant-admin', 'secrets');
const params = z.object({ secret: secretNameSchema });

export const secretRoutes = {
  listSecrets: defineRoute(may('member', 'secrets'), {
    method: 'get',
    path: '/v1/secrets',
    responses: { 200: json('Names and times, without values', secretListSchema), ...failures },
  }),
  setSecret: defineRoute(admin, {
    method: 'put',
    path: '/v1/secrets/{secret}',
    request: { ...body(secretValueSchema), params },
    responses: { 200: json('Sealed', secretSchema), ...failures },
  }),
  removeSecret: defineRoute(admin, {
    method: 'delete',
    path: '/v1/secrets/{secret}',
    request: { params },
    responses: { 204: nothing, ...failures },
  }),
} as const;
