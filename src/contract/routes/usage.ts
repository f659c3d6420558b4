/**
 * Usage: members see their own, tenant admins that of all.
 */
import { defineRoute } from '../auth.ts';
import { requestUsagePageSchema, requestUsageQuery } from '../request-usage.ts';
import { failures, json, may } from '../route-parts.ts';
import { usagePageSchema, usageQuery } from '../usage.ts';

export const usageRoutes = {
  showUsage: defineRoute(may('viewer', 'usage'), {
    method: 'get',
    path: '/v1/usage',
    request: { query: usageQuery },
    responses: {
      200: json('What was used, in the order of its keys', usagePageSchema),
      ...failures,
    },
  }),
  showRequestUsage: defineRoute(may('viewer', 'usage'), {
    method: 'get',
    path: '/v1/usage/requests',
    request: { query: requestUsageQuery },
    responses: {
      200: json('Requests to endpoints, by whole days', requestUsagePageSchema),
      ...failures,
    },
  }),
} as const;
