/**
 * Replicas of an endpoint on the wire: how many are asked for, and how each of them stands.
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';

export const replicaCount = z.int().min(1).max(limits.replicas);

export const scaleSchema = z.strictObject({ replicas: replicaCount }).openapi('Scale');

export const replicaSchema = z
  .object({
    replica: z.number(),
    /** ending: it is being taken off its machine; what waits then gets another run. */
    state: z.enum(['waiting', 'preparing', 'ready', 'ending', 'failed']),
    /** Why it waits, or failed. */
    reason: z
      .object({ code: z.string(), message: z.string(), fix: z.string().nullable() })
      .nullable(),
    /** Of its run; null where it has none. */
    machine_name: z.string().nullable(),
    placed_class: z.string().nullable(),
    run_epoch: z.number().nullable(),
    /** False where its machine has not been heard of lately. */
    heard_of: z.boolean(),
    restarts: z.number(),
  })
  .openapi('Replica');
export type ReplicaView = z.infer<typeof replicaSchema>;
