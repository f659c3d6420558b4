/**
 * One workload on one machine, told step by step on a clock whose wall can move: for tests of the
 * ledger.
 */
import assert from 'node:assert/strict';
import type { ObservedRun } from '../../src/contract/sync.ts';
import { makeId } from '../../src/core/ids.ts';
import { runName } from '../../src/core/run.ts';
import { seededRandom } from '../../src/lib/random.ts';
import type { WorkloadRow } from '../../src/store/events.ts';
import type { LedgerKind, LedgerRow } from '../../src/store/ledger.ts';
import { readSteady } from '../../src/store/ledger-clock.ts';
import type { Heard } from '../../src/store/proofs.ts';
import { createFakeClock } from './fake-clock.ts';
import { endpointSpec, type RigStore, seed, select } from './rig.ts';
import { greet } from './store-model.ts';

type World = Awaited<ReturnType<typeof beginWorld>>;
export type Tale = Awaited<ReturnType<typeof beginTale>>;

export async function beginTale(store: RigStore) {
  const world = await beginWorld(store);
  return { ...world, ...people(world), ...machine(world), ...ledger(world) };
}

async function beginWorld(store: RigStore) {
  const clock = createFakeClock();
  const random = seededRandom(5);
  const ids = await seed(store, clock, random);
  await greet(store, ids.machine_id, clock);
  let mono_zero = 0;
  const at = () => ({ now: clock.now(), mono: clock.monotonic() - mono_zero });
  await store.transact('startLedgerClock', at());
  return {
    ...{ store, clock, random, ids, at },
    cause: () => ({ ...at(), actor: 'user:ada', request_id: 'r' }),
    pass: (ms: number) => clock.advance(ms),
    /** The control plane comes back after so long by the wall; its monotonic clock begins anew. */
    restart({ away_ms }: { away_ms: number }) {
      clock.stepWall(away_ms);
      mono_zero = clock.monotonic() - 77;
      return store.transact('startLedgerClock', at());
    },
    async workload() {
      const [row] = await select<WorkloadRow>(store, 'select * from workloads');
      assert.ok(row, 'it was launched');
      return row;
    },
  };
}

function people({ store, clock, random, ids, cause, workload }: World) {
  const change = async (name: 'startWorkload' | 'stopWorkload' | 'deleteWorkload') => {
    const { id, tenant_id } = await workload();
    const args = { tenant_id, workload: id, ...cause(), idempotency: null };
    const done = await store.transact(name, args);
    assert.ok(done.outcome === 'done' && done.result.ok);
  };
  return {
    launch: () =>
      store.transact('launchWorkload', {
        id: makeId(clock.now(), random.bytes(10)),
        ...{ tenant_id: ids.tenant_id, creator_id: ids.user_id, spec: endpointSpec() },
        ...{ name_is_free: true, ...cause(), idempotency: null },
      }),
    stop: () => change('stopWorkload'),
    start: () => change('startWorkload'),
  };
}

function machine(world: World) {
  const { store, clock, ids, at, cause, workload } = world;
  const { stop } = people(world);
  const steps = {
    async place() {
      const { id, revision } = await workload();
      const placement = {
        ...{ machine_id: ids.machine_id, machine_name: 'desk', placed_class: 'cpu-1c-2g' },
        ...{ driver: 'sim' as const, isolation: 'weak' as const },
      };
      const args = { ...cause(), workload_id: id, revision, placement };
      assert.equal((await store.transact('placeWorkload', args)).outcome, 'placed');
    },
    async report(
      state: ObservedRun['state'],
      { heard, ...more }: Partial<ObservedRun> & { heard?: Heard | null } = {},
      machine_id = ids.machine_id,
    ) {
      const { id, run_epoch } = await workload();
      const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
      const run = { workload_id: id, replica: 0, run_epoch, state, ...facts, ...more };
      const said = heard === undefined ? {} : { heard };
      const who = { machine_id, machine_name: 'desk', ...said };
      await store.transact('applyReport', { ...cause(), ...who, observed: [run] });
    },
    /** The machine says that all is as it was. */
    async prove() {
      const { id: workload_id, run_epoch } = await workload();
      const runs = [runName({ workload_id, replica: 0, run_epoch })];
      const proofs = [{ machine_id: ids.machine_id, mono: at().mono, runs }];
      return store.transact('proveRunning', { ...at(), proofs });
    },
    /** Placed, ready, and stopped after so long. */
    async run(ms: number) {
      await steps.place();
      await steps.report('ready');
      await clock.advance(ms);
      await steps.prove();
      await stop();
      await steps.report('parked');
    },
  };
  return steps;
}

function ledger({ store, at }: World) {
  const intervals = (kind: LedgerKind) =>
    select<LedgerRow>(store, 'select * from ledger where kind = $1 order by run_epoch, entry', [
      kind,
    ]);
  const lengths = async (kind: LedgerKind) =>
    (await intervals(kind)).map((row) => (row.ended_at ?? Number.NaN) - row.started_at);
  return {
    intervals,
    lengths: async () => ({ metered: await lengths('metered'), held: await lengths('held') }),
    async openLength() {
      const open = (await intervals('metered')).find((row) => row.ended_at === null);
      assert.ok(open);
      return (await store.read(readSteady, at())) - open.started_steady;
    },
    insert: (row: LedgerRow) => {
      const names = Object.keys(row);
      const places = names.map((_, index) => `$${index + 1}`);
      const text = `insert into ledger (${names.join(', ')}) values (${places.join(', ')})`;
      return store.transact('write', { text, params: Object.values(row) });
    },
  };
}
