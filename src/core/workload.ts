/**
 * What a user asks for, and what Einsora holds about it. Field names are the wire's and the
 * store's.
 */
import type { State } from './states.ts';
import type { DriverName, Isolation } from './trust.ts';

export const kinds = ['vm', 'notebook', 'endpoint', 'instance'] as const;
export type Kind = (typeof kinds)[number];

export type Intent = 'running' | 'stopped' | 'deleted';
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
};

/** What stands in the store: a plain value, or the name of a stored secret, never its value. */
export type EnvValue = string | { secret: string };
export type IdlePolicy = { after_ms: number };

/** What a spec says where nobody asked for an image, variables and the like. */
export const no_extras = {
  image_id: null,
  command: [],
  env: {},
  ssh_public_key: null,
  idle_policy: null,
} satisfies Partial<WorkloadSpec>;

/** A stored spec; one that was written before images were lacks them. */
export function readSpec(text: string): WorkloadSpec {
  return { ...no_extras, ...(JSON.parse(text) as WorkloadSpec) };
}

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
  accelerators: string[];
  drivers: MachineDriver[];
  offered: Amounts;
  held: Amounts;
  /** Amounts that are kept free for a workload that has waited long. */
  reserved: Amounts;
  /** Names of the asking tenant's workloads that hold something here. Others' are not named. */
  holders: string[];
};

export type MachineDriver = {
  driver: DriverName;
  ready: boolean;
  /** Why not, for people. */
  why: string | null;
  /** The code of why not, where the driver has one. */
  why_code?: string | null | undefined;
  kinds: Kind[];
};

/** Amounts that a run holds of a machine. */
export type Amounts = { cpu_millis: number; memory_bytes: number; disk_bytes: number };

export type Placement = {
  machine_id: string;
  machine_name: string;
  driver: DriverName;
  isolation: Isolation;
  placed_class: string;
};

/** A workload as the API shows it, and as the command line prints it. */
export type WorkloadFacts = { id: string; state: State; reason: string | null };
