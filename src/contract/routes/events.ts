/**
 * Live events.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { failures, may } from '../route-parts.ts';

export const eventRoutes = {
  followEvents: defineRoute(may('viewer', 'workloads'), {
    method: 'get',
    path: '/v1/events',
    request: {
      headers: z.object({
        'last-event-id': z
          .string()
          .max(100)
          .optional()
          .openapi({ description: 'Go on after this event; `reset` where that is too long ago.' }),
      }),
    },
    responses: {
      200: {
        description:
          'What changes for the tenant, as it does: `hello`, `reset`, `workload`, `stages`, `machine`',
        content: { 'text/event-stream': { schema: z.string() } },
      },
      ...failures,
    },
  }),
} as const;
