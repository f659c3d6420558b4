/**
 * Usage on the wire: who used how much for how long. Never a price.
 */
import { z } from '@hono/zod-openapi';
import { usageGroups } from '../core/usage.ts';
import { pageQuery } from './route-parts.ts';

const moment = (description: string) => z.number().openapi({ description });
/** Milliseconds since 1970, or a moment as ISO 8601 writes it; days begin at midnight UTC. */
const asked = (description: string) =>
  z
    .string()
    .max(40)
    .regex(/^(?:\d{1,15}|\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?Z)?)$/, {
      error: 'give a day, a moment in UTC, or milliseconds since 1970',
    })
    .optional()
    .openapi({ description });

export const usageQuery = pageQuery.extend({
  from: asked('From this moment on: 2027-01-31, 2027-01-31T12:00Z, or milliseconds since 1970.'),
  to: asked('Up to this moment, which is no part of it; now where left out.'),
  group_by: z.enum(usageGroups).optional(),
  tenant: z.string().max(64).optional().openapi({ description: 'Of this tenant, for operators.' }),
});

const usageFields = {
  metered_ms: z.number().openapi({ description: 'How long it was running.' }),
  held_ms: z.number().openapi({ description: 'How long something was reserved for it.' }),
  cpu_hours: z.number(),
  gpu_hours: z.number(),
  memory_gib_hours: z.number(),
};

export const usagePageSchema = z
  .object({
    tenant: z.string(),
    from: moment('Milliseconds since 1970.'),
    to: moment('Milliseconds since 1970.'),
    group_by: z.enum(usageGroups),
    /** Of the whole window, on every page. */
    total: z.object(usageFields),
    items: z.array(z.object({ key: z.string(), name: z.string(), ...usageFields })),
    next_cursor: z.string().nullable(),
  })
  .openapi('UsagePage');
export type UsagePage = z.infer<typeof usagePageSchema>;
