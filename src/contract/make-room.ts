/**
 * Making room on the wire: which idle endpoints were, or would be, stopped.
 */
import { z } from '@hono/zod-openapi';

/** Endpoints of the asking user that nobody uses: stopping them would make room. */
export const roomOfferSchema = z.array(z.object({ name: z.string(), idle_ms: z.number() }));
export type RoomOffer = z.infer<typeof roomOfferSchema>;

export const roomMadeSchema = z
  .object({ stopped: z.array(z.object({ id: z.string(), name: z.string() })) })
  .openapi('RoomMade');
export type RoomMade = z.infer<typeof roomMadeSchema>;
