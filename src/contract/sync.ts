/**
 * The one call between an agent and the control plane: the agent reports what it has and gets the
 * machine's complete desired state back (ADR-0016).
 *
 * Invariants: `desired` is complete, never a difference; a report whose (agent_epoch, seq) is not
 * newer than the last accepted one changes nothing; unknown actions are reported and not acted on.
 */
import { z } from 'zod';
import { inventorySchema } from './machines.ts';
import { stageSchema } from './workloads.ts';

const runKey = {
  workload_id: z.string().max(26),
  replica: z.int().min(0),
  run_epoch: z.int().min(1),
};

export const helloSchema = z.object({
  boot_id: z.string().max(64),
  inventory: inventorySchema,
});
export type Hello = z.infer<typeof helloSchema>;
export type HelloReply = { store_uuid: string; store_epoch: number; agent_epoch: number };

export const observedRunSchema = z.object({
  ...runKey,
  /**
   * preparing: stages are on the way; ready: it answered; ended: proven to execute nothing any
   * more; parked: ended, and its folder is kept; removed: nothing of it is left here; unknown: the
   * driver cannot say.
   */
  state: z.enum(['preparing', 'ready', 'ended', 'parked', 'removed', 'unknown']),
  stages: z.array(stageSchema).max(16),
  exit: z
    .object({
      code: z.number().nullable(),
      signal: z.string().nullable(),
      out_of_memory: z.boolean(),
    })
    .nullable(),
  /** Why it ended or failed, from the table of reasons. */
  reason: z.string().nullable(),
  details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
  log_tail: z.string().max(8192).nullable(),
});
export type ObservedRun = z.infer<typeof observedRunSchema>;

export const reportSchema = z.object({
  boot_id: z.string().max(64),
  agent_epoch: z.int().min(1),
  seq: z.int().min(1),
  store_uuid: z.string(),
  store_epoch: z.int(),
  have_generation: z.int(),
  /** Everything of this deployment on the machine, once the agent has looked. */
  observed: z.array(observedRunSchema).max(10_000),
  inventory: inventorySchema.nullable(),
});
export type Report = z.infer<typeof reportSchema>;

export type EndpointSpec = {
  kind: 'endpoint';
  name: string;
  model: string;
  context_length: number | null;
  parallel: number | null;
  cpu_millis: number;
  memory_bytes: number;
};

export type DesiredRun = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  action: 'run' | 'park' | 'remove';
  driver: string;
  /** What to run; null where it is to be parked or removed. */
  spec: EndpointSpec | null;
};

export type SyncReply =
  | {
      outcome: 'accepted';
      store_uuid: string;
      store_epoch: number;
      generation: number;
      desired: DesiredRun[];
    }
  /** An agent that was replaced must end; one that is unknown says hello again. */
  | { outcome: 'stale_agent' | 'hello_again' };
