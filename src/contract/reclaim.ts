/**
 * Machines that their owners take back, on the wire (ADR-0060).
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';

const moment = z.int().min(0).max(8_640_000_000_000_000);
const scope = z.enum(['guests', 'all']);

export const reclaimRequestSchema = z
  .strictObject({
    at: moment.optional().openapi({ description: 'When it begins, in milliseconds since 1970.' }),
    in_ms: z.int().min(0).max(limits.longest_reclaim_ms).optional(),
    when_active: z.boolean().optional().openapi({
      description: "Whenever the machine's guard sees its owner use it. Without a start: now.",
    }),
    grace_ms: z.int().min(0).max(limits.longest_grace_ms).optional().openapi({
      description: 'How long those concerned are given before they are stopped; 5 min if left out.',
    }),
    until: moment.optional().openapi({ description: 'Released by then; else by `release`.' }),
    scope: scope.optional().openapi({ description: '`guests`, the default, spares your own.' }),
  })
  .openapi('ReclaimRequest');
export type ReclaimRequest = z.infer<typeof reclaimRequestSchema>;

export const machineReclaimSchema = z
  .object({
    /**
     * planned: at `starts_at`; armed: whenever its owner uses it; grace: those concerned are
     * stopped at `stops_at`; held: they are stopped, and nothing new of theirs starts.
     */
    phase: z.enum(['planned', 'armed', 'grace', 'held']),
    scope,
    /** A code of the table of reasons, and its phrase. */
    why: z.string(),
    why_text: z.string(),
    since: z.number(),
    starts_at: z.number().nullable(),
    stops_at: z.number().nullable(),
    until: z.number().nullable(),
    /** Who asked; told to the owner's people alone. */
    by: z.string().nullable(),
  })
  .openapi('MachineReclaim');
export type MachineReclaim = z.infer<typeof machineReclaimSchema>;

/** That a workload's machine is about to be taken back. */
export const workloadReclaimSchema = z
  .object({
    phase: z.enum(['planned', 'grace']),
    why_text: z.string(),
    /** Until the grace begins, and until it is stopped. */
    starts_in_ms: z.number(),
    stops_in_ms: z.number(),
  })
  .openapi('WorkloadReclaim');
export type WorkloadReclaim = z.infer<typeof workloadReclaimSchema>;
