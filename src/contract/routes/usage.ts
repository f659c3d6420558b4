/**
 * Usage: members see their own, tenant admins that of all.
 */
import { defineRoute } from '../auth.ts';
import {
  gatewayRequestPageSchema,
  gatewayRequestsQuery,
  requestUsagePageSchema,
  requestUsageQuery,
} from '../request-usage.ts';
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
  listGatewayRequests: defineRoute(may('viewer', 'usage'), {
    method: 'get',
    path: '/v1/requests',
    request: { query: gatewayRequestsQuery },
    responses: {
      200: json(
        'Single requests to endpoints of the last 14 days, newest first; a page may be empty and not the last',
        gatewayRequestPageSchema,
      ),
      ...failures,
    },
  }),
} as const;
