/**
 * What a machine's agent says of its owner's needs: how far guests are kept back, and what the
 * machine's own policy file refuses.
 */
import { z } from '@hono/zod-openapi';
import { type GuardLevel, guardWhys } from '../core/guard.ts';
import { kinds } from '../core/workload.ts';

const why = z.array(z.enum(guardWhys)).max(guardWhys.length);
const level = z.union([
  z.literal(0),
  z.literal(1),
  z.literal(2),
  z.literal(3),
  z.literal(4),
  z.literal(5),
]) satisfies z.ZodType<GuardLevel>;

export const guardSchema = z
  .object({
    level,
    why,
    /** Why nothing new starts, the owner's own workloads included; empty: they do. */
    own_why: why,
  })
  .openapi('Guard');

/** As reported: with what helps the control plane to carry it out. */
export const guardReportSchema = guardSchema.extend({
  /** At level 4: how long guests are given before they are parked. */
  grace_ms: z.number().min(0),
  /** When it goes down if nothing more is seen; null where nobody can say. */
  until_ms: z.number().min(0).nullable(),
});
export type GuardReport = z.infer<typeof guardReportSchema>;

const names = z.array(z.string().max(256)).max(256);

export const refusalsSchema = z
  .object({
    guests: z.boolean(),
    kinds: z.array(z.enum(kinds)).nullable(),
    tenants: names.nullable(),
    drivers: names.nullable(),
    images_allow: names.nullable(),
    images_deny: names,
    max_cpu_millis: z.number().nullable(),
    max_memory_bytes: z.number().nullable(),
    max_gpus: z.number().nullable(),
  })
  .openapi('Refusals');
