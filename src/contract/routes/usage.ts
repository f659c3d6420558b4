/**
 * Usage: members see their own, tenant admins that of all.
 */
import { defineRoute } from '../auth.ts';
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
} as const;
