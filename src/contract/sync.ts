/**
 * The one call between an agent and the control plane: the agent reports what it has and gets the
 * machine's complete desired state back (ADR-0016).
 *
 * Invariants: `desired` is complete, never a difference; a report whose (agent_epoch, seq) is not
 * newer than the last accepted one changes nothing; unknown actions are reported and not acted on.
 */
import { z } from 'zod';
import { guardWhys } from '../core/guard.ts';
import type { ImageRuntime } from '../core/images.ts';
import type { RunKey } from '../core/run.ts';
import type { Sharing, TrustLevel } from '../core/trust.ts';
import type { EnvValue } from '../core/workload.ts';
import { detailsSchema } from './details.ts';
import { guardReportSchema } from './guard.ts';
import { limits } from './limits.ts';
import { inventorySchema } from './machines.ts';
import { type DesiredModels, observedModelsSchema } from './model-files.ts';
import { exitSchema } from './run-exit.ts';
import { stageSchema } from './workloads.ts';

const runKey = {
  workload_id: z.string().max(26),
  replica: z.int().min(0),
  run_epoch: z.int().min(1),
};

const identitySchema = z.object({
  store_uuid: z.string().max(64),
  /** Higher after each restored backup: an agent obeys no lower one than it has met. */
  store_epoch: z.int().min(1),
  /** Higher with each agent that spoke for the machine. */
  agent_epoch: z.int().min(0),
});
/** Which store an agent obeys, and as which of the machine's agents it speaks. */
export type AgentIdentity = z.infer<typeof identitySchema>;

export const helloSchema = z.object({
  boot_id: z.string().max(64),
  /** Made anew for each hello that is meant, and the same in all repeats of one. */
  hello_id: z.string().max(64),
  /** What the machine's agents were told last; null for its very first one. */
  known: identitySchema.nullable(),
  inventory: inventorySchema,
});
export type Hello = z.infer<typeof helloSchema>;
export type HelloReply =
  | ({ outcome: 'greeted' } & AgentIdentity)
  /** Somebody spoke for this machine since: say hello anew, knowing this. */
  | ({ outcome: 'behind' } & AgentIdentity)
  /** other_boot: the machine is still heard of from another boot; newer_store: you met a later one. */
  | { outcome: 'unknown_machine' | 'other_boot' | 'newer_store' };

export const observedRunSchema = z.object({
  ...runKey,
  /**
   * preparing: stages are on the way; ready: it answered; ended: proven to execute nothing any
   * more; parked: ended, and its folder is kept; removed: nothing of it is left here; unknown: the
   * driver cannot say.
   */
  state: z.enum(['preparing', 'ready', 'ended', 'parked', 'removed', 'unknown']),
  stages: z.array(stageSchema).max(16),
  exit: exitSchema.nullable(),
  /** Why it ended or failed, from the table of reasons. */
  reason: z.string().nullable(),
  details: detailsSchema,
  log_tail: z.string().max(8192).nullable(),
  /** What the machine's guard does to it now; left out where it is left alone. */
  guarded: z.object({ step: z.enum(['lowered', 'paused']), why: z.enum(guardWhys) }).optional(),
  /** For how long it stood still in all, by the agent's monotonic clock. */
  paused_ms: z.number().min(0).optional(),
  /** Programs of it that were ended for lack of memory, where that can be counted. */
  oom_kills: z.int().min(0).optional(),
  /** How long ago it ended, by the agent's monotonic clock, where the agent saw it run and end. */
  ended_ago_ms: z.number().min(0).nullable().optional(),
});
export type ObservedRun = z.infer<typeof observedRunSchema>;

const amount = z.number().min(0).nullable();

/** What a ready run used. Null is what could not be measured, which is not zero. */
export const runSampleSchema = z.object({
  ...runKey,
  /** How long before its report it was taken, by the agent's monotonic clock. */
  ago_ms: z.number().min(0),
  /** The time that it stands for: since the sample before it; 0 for the first of an agent. */
  span_ms: z.number().min(0),
  /** CPU in thousandths of a core, over that time. */
  cpu_millis: amount,
  memory_bytes: amount,
  disk_bytes: amount,
  gpus: z
    .array(z.object({ uuid: z.string().max(128), busy_percent: amount, memory_bytes: amount }))
    .max(16)
    .nullable(),
  /**
   * Whether a kernel or terminal of it did something in that time, or still does; left out for
   * kinds that have none.
   */
  used: z.boolean().nullable().optional(),
});
export type RunSample = z.infer<typeof runSampleSchema>;

export const reportSchema = z.object({
  boot_id: z.string().max(64),
  agent_epoch: z.int().min(1),
  seq: z.int().min(1),
  store_uuid: z.string(),
  store_epoch: z.int(),
  have_generation: z.int(),
  /** The agent's monotonic clock, which stands still while its machine sleeps. */
  mono_ms: z.number().min(0).optional(),
  /** Everything of this deployment on the machine, once the agent has looked. */
  observed: z.array(observedRunSchema).max(10_000),
  inventory: inventorySchema.nullable(),
  /** The last look at the machine that was asked for (`look`) and is done. */
  looked: z.int().min(0).optional(),
  /** How far the machine is given back to its owner; left out by an agent without a guard. */
  guard: guardReportSchema.optional(),
  /** The models that it keeps; left out by an agent that keeps none. */
  models: observedModelsSchema.optional(),
  /** Since the last report that was taken; what does not fit comes with the next. */
  samples: z.array(runSampleSchema).max(limits.samples_per_report).optional(),
});
export type Report = z.infer<typeof reportSchema>;

export type EndpointSpec = {
  kind: 'endpoint';
  name: string;
  /** Of the catalog; null for the engine that comes with Einsora. */
  image_id: string | null;
  accelerator: string | null;
  model: string;
  context_length: number | null;
  parallel: number | null;
  /** How its image is run, where an operator wrote that; left out: as the agent knows. */
  runtime?: ImageRuntime;
  /** The GPUs that are its own, or that its creator shares; left out: none. */
  gpu_uuids?: string[];
  /** Others of its creator's are on its GPU, or may come. */
  shares_gpu?: boolean;
  cpu_millis: number;
  memory_bytes: number;
};

/** What a notebook and an instance are run by: an image, and what is to be in it. */
type ImageSpec = {
  name: string;
  image_id: string;
  accelerator: string | null;
  /** Empty: what the image begins with. */
  command: string[];
  /** Secrets by their names: the values come in `RunSecrets`. */
  env: Record<string, EnvValue>;
  /** How its image is run, where an operator wrote that; left out: as the agent knows. */
  runtime?: ImageRuntime;
  /** The GPUs that are its own, or that its creator shares; left out: none. */
  gpu_uuids?: string[];
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
};
export type NotebookSpec = ImageSpec & { kind: 'notebook' };
export type InstanceSpec = ImageSpec & { kind: 'instance' };

/** What to run, by kind. */
export type RunTarget = EndpointSpec | NotebookSpec | InstanceSpec;

/** What only the machine that runs it is told, and what it never writes down. */
export type RunSecrets = {
  /** What the run's web page is to ask for; null for kinds without one. */
  site_token: string | null;
  /** By which it calls the gateway; null for kinds that do not. */
  gateway_key?: string | null;
  /** Values of the stored secrets that its variables take, by their names. */
  values: Record<string, string>;
  /** By which it signs in at the registries of its image: `user:token`. */
  registries?: Record<string, string>;
};

export type DesiredRun = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  action: 'run' | 'park' | 'remove';
  /** It was seen on the machine before: where nothing of it is left, it is lost, not to be begun. */
  begun: boolean;
  /** Its end is proven. */
  over: boolean;
  /** With `remove`: what the workload keeps on the machine goes too. */
  erase: boolean;
  /** How whoever runs it stands to the machine: the agent looks again. */
  trust: TrustLevel;
  /** With whom the machine is shared, for that look. */
  sharing: Sharing;
  /** The slug of whose it is: rules of the machine's own policy may name it. */
  tenant?: string | undefined;
  driver: string;
  /** What to run; null where it is to be parked or removed. */
  spec: RunTarget | null;
  /** Filled in on the way out: desired state itself is worked out without them. */
  secrets: RunSecrets | null;
};

export type SyncReply =
  | {
      outcome: 'accepted';
      store_uuid: string;
      store_epoch: number;
      generation: number;
      /** Null where it is what `have_generation` says that the agent has. */
      desired: DesiredRun[] | null;
      /** With `desired`: what is to be done about models, and for whom runs fetch theirs. */
      models?: DesiredModels | undefined;
      /** A person wants the machine looked at anew: the number of that wish in this session. */
      look?: number | undefined;
      /** Runs here from which the gateway got nothing of late; none where it is left out. */
      doubted?: RunKey[] | undefined;
    }
  /**
   * stale_report: a newer report of this agent was taken; stale_agent: a newer agent speaks for the
   * machine, this one must end; hello_again: this agent is not known.
   */
  | { outcome: 'stale_report' | 'stale_agent' | 'hello_again' };
