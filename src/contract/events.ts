/**
 * What the live stream says (`GET /v1/events`, server-sent events): all that changes for a tenant.
 *
 * `hello` opens a stream, `reset` says that something was left out: after either, read anew what
 * you show. `workload`, `stages` and `machine` carry what changed. Events with an id can be resumed
 * after (Last-Event-ID); stages and machines are told as they are now, not as they were.
 */
import type { Stage, WorkloadEvent } from './workloads.ts';

export type LiveEvent =
  | { type: 'hello'; data: { store_uuid: string } }
  | { type: 'reset'; data: { why: 'too_slow' | 'too_long_ago' | 'store_failed' } }
  | { type: 'workload'; data: LiveWorkload }
  | { type: 'stages'; data: LiveStages }
  | { type: 'machine'; data: LiveMachine };

export type LiveWorkload = { workload_id: string; name: string; event: WorkloadEvent };
export type LiveStages = {
  workload_id: string;
  name: string;
  run_epoch: number;
  stages: Stage[];
};
export type LiveMachine = {
  machine_id: string;
  name: string;
  online: boolean;
  last_seen_at: number | null;
  /** Higher whenever it told something new of itself: its GPUs, its drivers, what it offers. */
  revision: number;
};
