/**
 * Records for the fake API, as the contract has them.
 */

import type { Plan, Stage, Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { no_extras } from '../../src/core/workload.ts';

export const now_ms = Date.UTC(2026, 0, 2, 12, 0, 0);

const gib = 2 ** 30;

const asked = {
  kind: 'endpoint',
  name: 'smollm2-135m',
  region: 'local',
  accelerator: null,
  gpu_class: null,
  gpu_count: 0,
  cpu_millis: 1000,
  memory_bytes: 2 * gib,
  disk_bytes: 0,
  model: 'smollm2-135m',
  model_params: {},
  ...no_extras,
  fallback_after: 0,
} as const;

const placement = {
  machine_id: 'm1',
  machine_name: 'box1',
  driver: 'linux-native',
  isolation: 'weak',
  isolation_tier: 'trusted',
  placed_class: 'cpu-1c-2g',
} as const;

export const plan: Plan = {
  asked,
  defaults: ['name', 'region', 'gpu_class', 'cpu_millis', 'memory_bytes'],
  chosen: placement,
  host_sees: 'everything: files, memory, prompts and answers',
  reason: null,
  refused: null,
  download: null,
  candidates: [
    {
      ...{ machine_name: 'box1', answer: 'chosen', driver: 'linux-native', isolation: 'weak' },
      ...{ host_sees: 'everything: files, memory, prompts and answers', reason: null },
    },
    {
      ...{ machine_name: 'box2', answer: 'no', driver: null, isolation: null, host_sees: null },
      reason: {
        code: 'accelerator_missing',
        message: 'box2 has no apple accelerator.',
        fix: 'einsora doctor',
      },
    },
  ],
  queue: { place: 1, own: [], own_more: 0, others: 0 },
  machines_not_chosen: [
    {
      machine_name: 'box2',
      code: 'accelerator_missing',
      message: 'box2 has no apple accelerator.',
      fix: 'einsora doctor',
    },
  ],
  classes_not_chosen: [{ gpu_class: 'cpu-8c-32g', why: 'larger than needed' }],
  fallbacks: [],
  make_room: null,
  shares_with: [],
};

/** A running endpoint, but for what is given. */
export function workload(changes: Partial<Workload> = {}): Workload {
  return {
    id: 'w1',
    ...asked,
    model_params: {},
    ...no_extras,
    fallback_after: 0,
    ...{ fallback_taken: null, make_room: null, gpus: [] },
    state: 'running',
    intent: 'running',
    park_cause: 'none',
    reason: null,
    queue_place: null,
    placement: { ...placement, run_epoch: 1 },
    home: null,
    host_sees: 'everything: files, memory, prompts and answers',
    heard_of: true,
    last_heard_at: now_ms - 1000,
    stages: [],
    ...{ replicas_ready: 1, replica_states: [] },
    restarts: 0,
    created_at: now_ms - 3600_000,
    created_by: 'owner',
    state_since: now_ms - 180_000,
    revision: 1,
    reclaim: null,
    use: null,
    url: null,
    ...changes,
  };
}

export function placed(run_epoch = 1): Workload['placement'] {
  return { ...placement, run_epoch };
}

export function stage(name: Stage['name'], changes: Partial<Stage> = {}): Stage {
  return {
    name,
    state: 'running',
    duration_ms: 0,
    done_bytes: null,
    total_bytes: null,
    note: null,
    ...changes,
  };
}

export function event(number: number, changes: Partial<WorkloadEvent> = {}): WorkloadEvent {
  return {
    number,
    at: now_ms - 60_000,
    kind: 'state',
    from_state: null,
    to_state: 'pending',
    code: null,
    message: 'Recorded.',
    actor: 'owner',
    request_id: null,
    details: {},
    ...changes,
  };
}
