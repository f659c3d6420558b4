/**
 * What the gateway does now.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { gatewayTopSchema } from '../gateway-top.ts';
import { failures, json, may } from '../route-parts.ts';

export const gatewayViewRoutes = {
  showGatewayTop: defineRoute(may('viewer', 'usage'), {
    method: 'get',
    path: '/v1/gateway/top',
    request: {
      query: z.object({
        tenant: z.string().max(64).optional().openapi({ description: 'Of it, for operators.' }),
      }),
    },
    responses: { 200: json('By model and by key', gatewayTopSchema), ...failures },
  }),
  readMetrics: defineRoute(may('operator', 'usage'), {
    method: 'get',
    path: '/metrics',
    responses: {
      200: {
        description: 'Metrics of this program for Prometheus, text format 0.0.4',
        content: { 'text/plain': { schema: z.string() } },
      },
      ...failures,
    },
  }),
} as const;
