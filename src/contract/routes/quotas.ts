/**
 * Quotas: set by operators, read by the admins of the tenant, too.
 */
import { defineRoute } from '../auth.ts';
import { quotaChangeSchema, quotaListSchema } from '../quotas.ts';
import { body, failures, json, may } from '../route-parts.ts';
import { tenantParams } from './users.ts';

export const quotaRoutes = {
  showQuota: defineRoute(may('tenant-admin', 'accounts'), {
    method: 'get',
    path: '/v1/tenants/{tenant}/quota',
    request: { params: tenantParams },
    responses: {
      200: json('Its limits, and what is claimed of them', quotaListSchema),
      ...failures,
    },
  }),
  setQuota: defineRoute(may('operator', 'accounts'), {
    method: 'put',
    path: '/v1/tenants/{tenant}/quota',
    request: { ...body(quotaChangeSchema), params: tenantParams },
    responses: { 200: json('All its limits, after the change', quotaListSchema), ...failures },
  }),
} as const;
