/**
 * A rig with an endpoint that runs, an agent that tells what it uses, and a use that is looked at,
 * on a clock that only moves when told.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/contract/limits.ts';
import type { WorkloadUse } from '../../src/contract/stats.ts';
import type { AgentIdentity, Report, RunSample } from '../../src/contract/sync.ts';
import type { Use } from '../../src/controlplane/use.ts';
import { makeId } from '../../src/core/ids.ts';
import type { WorkloadRow } from '../../src/store/events.ts';
import {
  ask,
  counted,
  createRig,
  endpointSpec,
  gib,
  inventoryOf,
  type Rig,
  type RigStore,
  select,
} from './rig.ts';

export const every_ms = limits.sample_every_ms;
export const hour_ms = 3600_000;
const stopped = AbortSignal.abort();

/** An endpoint that runs, an agent that tells of it, and a use that is looked at. */
async function beginUse(options: { after_ms?: number | null } = {}) {
  let written: string[] = [];
  const wrap = (store: RigStore) => {
    const counting = counted(store);
    written = counting.written;
    return counting.store;
  };
  const rig = await createRig({ wrap });
  const use = await rig.startUse();
  const { after_ms = hour_ms } = options;
  const id = makeId(rig.clock.now(), rig.random.bytes(10));
  const idle_policy = after_ms === null ? null : { after_ms };
  await rig.store.transact('launchWorkload', {
    ...{ id, tenant_id: rig.ids.tenant_id, creator_id: rig.ids.user_id, idempotency: null },
    ...{ spec: endpointSpec({ idle_policy }), name_is_free: true, actor: 'user:ada' },
    ...{ request_id: 'r', now: rig.clock.now() },
  });
  const greeted = await hello(rig);
  let seq = 0;
  const report = async (more: Partial<Report>) => {
    seq += 1;
    const words = { boot_id: 'b', have_generation: -1, observed: [], inventory: null, seq };
    const mono_ms = Math.floor(rig.clock.monotonic()) + 5000;
    const told = { ...greeted, ...words, mono_ms, ...more };
    return rig.sync.sync(rig.ids.machine_id, told, stopped);
  };
  const told: Omit<Tale, 'run'> & { run: Run } = {
    ...{ rig, use, id, report, written: () => written },
    run: { workload_id: id, replica: 0, run_epoch: 0 },
  };
  await runAnew(told);
  return told as Tale;
}

export type Run = { workload_id: string; replica: number; run_epoch: number };
export type Tale = {
  rig: Rig;
  use: Use;
  id: string;
  run: Run;
  report(more: Partial<Report>): Promise<unknown>;
  written(): string[];
};

async function hello({ sync, ids }: Rig): Promise<AgentIdentity> {
  const known = { store_uuid: 's', store_epoch: 1, agent_epoch: 0 };
  const inventory = inventoryOf({ cpu_millis: 8000, memory_bytes: 16 * gib });
  const words = { boot_id: 'b', hello_id: 'h', known, inventory };
  const greeted = await sync.hello(ids.machine_id, words);
  assert.ok(greeted.outcome === 'greeted');
  const { outcome: _, ...identity } = greeted;
  return identity;
}

/** Places it and lets its run be ready. */
export async function runAnew(tale: Omit<Tale, 'use'>): Promise<void> {
  const { rig, id, run } = tale;
  const { revision } = await rowOf(tale);
  const cause = { now: rig.clock.now(), actor: 'controller', request_id: null };
  const chosen = { machine_id: rig.ids.machine_id, machine_name: 'desk', driver: 'sim' } as const;
  const placement = { ...chosen, isolation: 'weak' as const, placed_class: 'cpu-1c-2g' };
  await rig.store.transact('placeWorkload', { ...cause, workload_id: id, revision, placement });
  run.run_epoch += 1;
  await observe(tale, 'ready');
}

export function observe({ report, run }: Pick<Tale, 'report' | 'run'>, state: 'ready' | 'parked') {
  const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
  return report({ observed: [{ ...run, state, ...facts }] });
}

export async function rowOf({ rig, id }: Pick<Tale, 'rig' | 'id'>): Promise<WorkloadRow> {
  const text = 'select * from workloads where id = $1';
  const [row] = await select<WorkloadRow>(rig.store, text, [id]);
  assert.ok(row);
  return row;
}

export const sampleOf = (run: Run, more: Partial<RunSample> = {}): RunSample => ({
  ...{ ...run, ago_ms: 0, span_ms: every_ms, cpu_millis: 2, memory_bytes: gib },
  ...{ disk_bytes: null, gpus: null, ...more },
});

/** So many samples, one every 10 s. */
export async function live(
  tale: Tale,
  count: number,
  more: Partial<RunSample> = {},
): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    await tale.rig.clock.advance(every_ms);
    await tale.report({ samples: [sampleOf(tale.run, more)] });
  }
}

export async function useOf({ rig, id }: Tale): Promise<WorkloadUse | null> {
  return (await ask(rig, 'GET', `/v1/workloads/${id}`)).body.use as WorkloadUse | null;
}

export async function codesOf({ rig, id }: Tale): Promise<string[]> {
  const text = 'select code from workload_events where workload_id = $1 order by number';
  const rows = await select<{ code: string | null }>(rig.store, text, [id]);
  return rows.flatMap(({ code }) => code ?? []).filter((code) => code.startsWith('idle_'));
}

export function given(
  name: string,
  body: (tale: Tale) => Promise<void>,
  options: { after_ms?: number | null } = {},
): void {
  test(name, async () => {
    const tale = await beginUse(options);
    try {
      await body(tale);
    } finally {
      await tale.rig.close();
    }
  });
}
