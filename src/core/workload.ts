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
};

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
