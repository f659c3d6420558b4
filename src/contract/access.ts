/**
 * Opening the site of a workload: the one-time link that a browser is sent to.
 */
import { z } from '@hono/zod-openapi';

export const accessLinkSchema = z
  .object({
    /** Its fragment is the secret, which no server and no log sees. */
    url: z.string(),
    /** Wall-clock milliseconds. */
    expires_at: z.number(),
  })
  .openapi('AccessLink');
export type AccessLink = z.infer<typeof accessLinkSchema>;
