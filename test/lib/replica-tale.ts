/**
 * An endpoint with replicas on two machines, told step by step: for tests of replicas in the store.
 */
import assert from 'node:assert/strict';
import { makeId } from '../../src/core/ids.ts';
import type { EventRow, WorkloadRow } from '../../src/store/events.ts';
import type { LedgerRow } from '../../src/store/ledger.ts';
import type { ReplicaUnit } from '../../src/store/place-replica.ts';
import type { ReplicaRow } from '../../src/store/replicas.ts';
import type { ReportedRun } from '../../src/store/run-reports.ts';
import type { RunRow } from '../../src/store/runs.ts';
import { endpointSpec, type RigStore, select } from './rig.ts';
import { beginStory, greet } from './store-model.ts';

export type ReplicaTale = Awaited<ReturnType<typeof beginReplicas>>;

async function beginWorld(store: RigStore, replicas = 2) {
  const { clock, random, ids } = await beginStory(store);
  const other = 'machine-east';
  await store.transact('addMachine', {
    ...{ id: other, tenant_id: ids.tenant_id, name: 'east', region: 'local', now: clock.now() },
  });
  await greet(store, other, clock);
  const cause = () => ({
    ...{ now: clock.now(), mono: clock.monotonic(), actor: 'user:ada', request_id: 'r' },
  });
  const id = makeId(clock.now(), random.bytes(10));
  const launched = await store.transact('launchWorkload', {
    ...{ id, tenant_id: ids.tenant_id, creator_id: ids.user_id, spec: endpointSpec({ replicas }) },
    ...{ name_is_free: true, ...cause(), idempotency: null },
  });
  assert.ok(launched.outcome === 'done');
  const workload = async () => {
    const [row] = await select<WorkloadRow>(store, 'select * from workloads where id = $1', [id]);
    assert.ok(row);
    return row;
  };
  const placementOn = (machine_id: string) => ({
    ...{ machine_id, machine_name: machine_id === other ? 'east' : 'desk' },
    ...{ placed_class: 'cpu-1c-2g', driver: 'sim' as const, isolation: 'weak' as const },
  });
  const rows = () =>
    select<ReplicaRow>(store, 'select * from replicas where workload_id = $1 order by replica', [
      id,
    ]);
  const runs = () =>
    select<RunRow>(store, 'select * from runs where workload_id = $1 order by run_epoch', [id]);
  const current = async (replica: number) => {
    const found = (await runs()).filter((run) => run.replica === replica).at(-1);
    assert.ok(found, `replica ${replica} has a run`);
    return found;
  };
  return {
    ...{ store, clock, ids, id, desk: ids.machine_id, east: other, workload, rows, runs, current },
    ...{
      cause,
      placementOn,
      changed: { tenant_id: ids.tenant_id, workload: id, idempotency: null },
    },
  };
}

export async function beginReplicas(store: RigStore, replicas = 2) {
  const world = await beginWorld(store, replicas);
  const { id, changed, workload, rows, cause, placementOn, east } = world;
  return {
    ...world,
    async place(machine_id: string) {
      const { revision } = await workload();
      const what = { workload_id: id, revision, placement: placementOn(machine_id) };
      return (await store.transact('placeWorkload', { ...cause(), ...what })).outcome;
    },
    async placeOne(replica: number, machine_id: string, unit?: ReplicaUnit) {
      const row = (await rows()).find((one) => one.replica === replica);
      const waiting = { why: 'waiting' as const, revision: row?.revision ?? 0 };
      const what = { workload_id: id, replica, unit: unit ?? waiting };
      const args = { ...cause(), ...what, placement: placementOn(machine_id) };
      return (await store.transact('placeReplica', args)).outcome;
    },
    async report(run: RunRow, state: ReportedRun['state'], more: Partial<ReportedRun> = {}) {
      const { workload_id, replica, run_epoch, machine_id } = run;
      const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
      const observed = [{ workload_id, replica, run_epoch, state, ...facts, ...more }];
      const who = { machine_id, machine_name: machine_id === east ? 'east' : 'desk' };
      return store.transact('applyReport', { ...cause(), ...who, observed });
    },
    change: (name: 'startWorkload' | 'stopWorkload' | 'deleteWorkload') =>
      store.transact(name, { ...changed, ...cause() }),
    scale: async (to: number) => {
      const done = await store.transact('scaleEndpoint', { ...changed, ...cause(), replicas: to });
      assert.ok(done.outcome === 'done');
      return done.result;
    },
    events: () =>
      select<EventRow>(
        store,
        'select * from workload_events where workload_id = $1 order by number',
        [id],
      ),
    metered: async () =>
      (
        await select<LedgerRow>(
          store,
          "select * from ledger where kind = 'metered' order by replica, run_epoch",
        )
      ).map(({ replica, run_epoch, ended_at }) => [replica, run_epoch, ended_at !== null]),
  };
}
