/**
 * What a user asks for, and what Einsora holds about it. Field names are the wire's and the
 * store's.
 */

import type { DeviceView } from './devices.ts';
import type { FallbackStep } from './fallback.ts';
import type { GuardView } from './guard.ts';
import type { ImageRuntime } from './images.ts';
import type { ReclaimView } from './reclaim.ts';
import type { Refusals } from './refusals.ts';
import type { State } from './states.ts';
import type { DriverName, Isolation } from './trust.ts';

export const kinds = ['vm', 'notebook', 'endpoint', 'instance'] as const;
export type Kind = (typeof kinds)[number];

export type ParkCause = 'none' | 'user' | 'idle' | 'preempted' | 'trust' | 'quota';

/** A request with every default filled in: what the plan shows and the store keeps. */
export type WorkloadSpec = {
  kind: Kind;
  name: string;
  region: string;
  /** Empty where anything will do. */
  accelerator: string | null;
  /** The class asked for; null means the smallest that fits. */
  gpu_class: string | null;
  gpu_count: number;
  /** Of each of its GPUs, at least; 0 for any. */
  gpu_memory_bytes: number;
  /** What each of its GPUs has to be, as `gpuModelName` names it; null for any. */
  gpu_model: string | null;
  /** Its creator lets their own other workloads use its GPU, if those say so too (ADR-0053). */
  share_device: boolean;
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
  /** A catalog name or a file:// URL; null for kinds without a model. */
  model: string | null;
  model_params: ModelParams;
  /** Of the catalog, or a registry's reference; null where the kind or the model decides. */
  image_id: string | null;
  /** The program to run in the image; empty: what the image begins with. */
  command: string[];
  env: Record<string, EnvValue>;
  /** Lines of authorized_keys: whoever comes in by SSH must hold one of them. Null: no key is asked. */
  ssh_public_key: string | null;
  /** Null: it is never stopped for being idle. */
  idle_policy: IdlePolicy | null;
  /** How many runs of it are to answer at once; 1 but for endpoints. */
  replicas: number;
  /** The only machine that it may run on; null for any. */
  machine: AskedMachine | null;
  /** What may stand in for what was asked, in this order, once it waited so long. */
  fallback: FallbackStep[];
  fallback_after_ms: number;
  /** Whether it goes back to what was asked once that is free. */
  fallback_return: boolean;
};

/** By id, so that another name changes nothing; the name is the one it was asked by. */
export type AskedMachine = { id: string; name: string };

/** What stands in the store: a plain value, or the name of a stored secret, never its value. */
export type EnvValue = string | { secret: string };
export type IdlePolicy = { after_ms: number };

/** What a spec says where nobody asked for an image, variables and the like. */
export const no_extras = {
  gpu_memory_bytes: 0,
  gpu_model: null,
  share_device: false,
  image_id: null,
  command: [],
  env: {},
  ssh_public_key: null,
  idle_policy: null,
  replicas: 1,
  machine: null,
  fallback: [],
  fallback_after_ms: 0,
  fallback_return: false,
} satisfies Partial<WorkloadSpec>;

/** A stored spec; one that was written before images were lacks them. Copied only where it does. */
export function readSpec(text: string): WorkloadSpec {
  const spec = JSON.parse(text) as WorkloadSpec;
  const is_whole = extra_names.every((name) => Object.hasOwn(spec, name));
  return is_whole ? spec : { ...no_extras, ...spec };
}

const extra_names = Object.keys(no_extras);

export type ModelParams = {
  /** Tokens of context for each of `parallel` requests at once. */
  context_length?: number | undefined;
  parallel?: number | undefined;
};

/** One machine as placement sees it. */
export type MachineView = {
  id: string;
  name: string;
  region: string;
  owner_tenant_id: string;
  invited_tenant_ids: string[];
  sharing: 'private' | 'invite-only' | 'community';
  online: boolean;
  last_seen_at: number | null;
  /** Nothing new is placed there, as its owner said; left out: it may be. */
  drained?: boolean;
  accelerators: string[];
  /** GPUs that a driver could give to a workload; left out: none. */
  devices?: readonly DeviceView[];
  drivers: MachineDriver[];
  /** What its own policy file refuses guests; left out: nothing. */
  refuses?: Refusals | null;
  /** Slugs by the ids of tenants, where `refuses` names any. */
  slugs?: ReadonlyMap<string, string>;
  /** How far it is given back to its owner; left out: not at all. */
  guard?: GuardView | null;
  offered: Amounts;
  held: Amounts;
  /** Amounts that are kept free for a workload that has waited long. */
  reserved: Amounts;
  /** For the head of which class that is, and how long it has waited; left out: for none. */
  reserved_for?: { gpu_class: string; waited_ms: number };
  /** Names of the asking tenant's workloads that hold something here. Others' are not named. */
  holders: string[];
  /** Who gets nothing new there just now, because its owner wants it back; none where left out. */
  reclaim?: ReclaimView | null | undefined;
};

export type MachineDriver = {
  driver: DriverName;
  ready: boolean;
  /** Why not, for people. */
  why: string | null;
  /** The code of why not, where the driver has one. */
  why_code?: string | null | undefined;
  kinds: Kind[];
  /** Of a made-up machine in dev mode: whose row of the trust matrix it takes (ADR-0057). */
  as?: DriverName | null;
};

/** Amounts that a run holds of a machine. */
export type Amounts = { cpu_millis: number; memory_bytes: number; disk_bytes: number };

export type Placement = {
  machine_id: string;
  machine_name: string;
  driver: DriverName;
  /** Left out or null: the driver's own row of the trust matrix. */
  as?: DriverName | null;
  isolation: Isolation;
  placed_class: string;
  /** UUIDs of the GPUs that it takes; left out: none. */
  devices?: string[];
  /** How its image is run, where an operator wrote that; left out: the machine knows it. */
  runtime?: ImageRuntime;
  /** What a second of it weighs in fair share, by the catalog of that moment; in thousandths. */
  weight_millis?: number;
};

/** A workload as the API shows it, and as the command line prints it. */
export type WorkloadFacts = { id: string; state: State; reason: string | null };
