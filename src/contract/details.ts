/**
 * The facts of a reason on the wire: what fills in its sentence.
 */
import { z } from '@hono/zod-openapi';

export const detailsSchema = z.record(
  z.string(),
  z.union([z.string(), z.number(), z.boolean(), z.null()]),
);
