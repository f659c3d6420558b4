/**
 * How the process of a run ended.
 */
import { z } from '@hono/zod-openapi';

export const exitSchema = z.object({
  code: z.number().nullable(),
  signal: z.string().nullable(),
  out_of_memory: z.boolean(),
});
