/**
 * Random stories of workloads on a store, for properties: launches, stops, starts, deletions,
 * placements and reports, in any order, under a wall clock that also steps back; and what must hold
 * after every step.
 *
 * Invariants: a story is data, so fast-check can shrink it; it is replayed on any store.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { ObservedRun } from '../../src/contract/sync.ts';
import { makeId } from '../../src/core/ids.ts';
import { nextState, type State, type StateEvent } from '../../src/core/states.ts';
import { type Random, seededRandom } from '../../src/lib/random.ts';
import type { HelloArgs } from '../../src/store/agents.ts';
import type { EventRow, WorkloadRow } from '../../src/store/events.ts';
import type { RunRow } from '../../src/store/runs.ts';
import type { Row } from '../../src/store/sql.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { checkLedger } from './ledger-check.ts';
import { endpointSpec, gib, type RigStore, seed, select } from './rig.ts';

export const offered = { cpu_millis: 3000, memory_bytes: 6 * gib, disk_bytes: 50 * gib };

export type Step =
  | {
      do:
        | 'launch'
        | 'stop'
        | 'start'
        | 'delete'
        | 'place'
        | 'idle'
        | 'wake'
        | 'reclaim'
        | 'release';
      which: number;
      clock_ms: number;
    }
  /** At most so many workloads; 0 lifts it. */
  | { do: 'quota'; which: number; clock_ms: number }
  | { do: 'report'; which: number; says: ObservedRun['state']; oom: boolean; clock_ms: number };

const clock_ms = fc.integer({ min: -5000, max: 5000 });
const which = fc.nat(3);
export const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constantFrom(
      ...(['launch', 'stop', 'start', 'delete', 'place', 'place', 'idle', 'wake'] as const),
      ...(['reclaim', 'release'] as const),
    ),
    which,
    clock_ms,
  }),
  { weight: 1, arbitrary: fc.record({ do: fc.constant('quota' as const), which, clock_ms }) },
  fc.record({
    do: fc.constant('report' as const),
    which: fc.nat(7),
    says: fc.constantFrom('preparing', 'ready', 'ended', 'parked', 'removed', 'unknown'),
    oom: fc.boolean(),
    clock_ms,
  }),
);
export const anyStory = fc.array(anyStep, { minLength: 5, maxLength: 40 });

export type Story = {
  store: RigStore;
  clock: FakeClock;
  random: Random;
  ids: Awaited<ReturnType<typeof seed>>;
  /** Runs that a report of this story proved to be gone, by name. */
  proven: Set<string>;
};

export async function beginStory(store: RigStore): Promise<Story> {
  const clock = createFakeClock();
  const random = seededRandom(3);
  const ids = await seed(store, clock, random);
  await greet(store, ids.machine_id, clock);
  return { store, clock, random, ids, proven: new Set() };
}

/** A hello of an agent that knows what the machine's agents were told last. */
export async function greet(
  store: RigStore,
  machine_id: string,
  clock: FakeClock,
  more: Partial<HelloArgs> = {},
) {
  const [row] = await select<{ agent_epoch: number }>(
    store,
    'select agent_epoch from machines where id = $1',
    [machine_id],
  );
  const known = { store_uuid: 's', store_epoch: 1, agent_epoch: row?.agent_epoch ?? 0 };
  return store.transact('greetMachine', {
    ...{ machine_id, boot_id: 'b', hello_id: `hello ${known.agent_epoch}`, known },
    ...{ is_heard: false, name: 'desk', offered, inventory: '{}', now: clock.now() },
    ...more,
  });
}

export const workloadsOf = (store: RigStore) =>
  select<WorkloadRow>(store, 'select * from workloads order by created_at, id');
export const runsOf = (store: RigStore) =>
  select<RunRow>(store, 'select * from runs order by workload_id, replica, run_epoch');
export const eventsOf = (store: RigStore, workload_id: string) =>
  select<EventRow>(store, 'select * from workload_events where workload_id = $1 order by number', [
    workload_id,
  ]);

export async function take(story: Story, step: Step): Promise<void> {
  const { store, clock, ids, random } = story;
  clock.stepWall(step.clock_ms);
  const now = clock.now();
  if (step.do === 'quota') return limitWorkloads(story, step.which === 0 ? null : step.which);
  const before = await workloadQuota(story);
  if (step.do === 'launch') {
    const launched = await store.transact('launchWorkload', {
      id: makeId(now, random.bytes(10)),
      tenant_id: ids.tenant_id,
      creator_id: ids.user_id,
      spec: endpointSpec(),
      name_is_free: true,
      actor: 'user:ada',
      request_id: 'r',
      now,
      idempotency: null,
    });
    assert.equal(launched.outcome === 'done' && launched.result.ok, before.has_room, 'the quota');
    return;
  }
  if (step.do === 'report') return report(story, step);
  if (step.do === 'reclaim' || step.do === 'release') return takeBack(story, step);
  const rows = await workloadsOf(store);
  const row = rows[step.which % Math.max(1, rows.length)];
  if (row === undefined) return;
  if (step.do === 'place') return place(story, row);
  if (step.do === 'idle') return parkIdle(story, row);
  if (step.do === 'wake') return wakeIdle(story, row, before.has_room);
  const change = {
    stop: 'stopWorkload',
    start: 'startWorkload',
    delete: 'deleteWorkload',
  } as const;
  const claims_anew = step.do === 'start' && (row.state === 'stopped' || row.state === 'failed');
  const changed = await store.transact(change[step.do], {
    tenant_id: ids.tenant_id,
    workload: row.id,
    actor: 'user:ada',
    request_id: 'r',
    now,
    idempotency: null,
  });
  const is_over = changed.outcome === 'done' && !changed.result.ok && isOverQuota(changed.result);
  assert.equal(is_over, claims_anew && !before.has_room, 'the quota');
}

/** What runs and is meant to is stopped for being idle, and nothing else is. */
async function parkIdle({ store, clock }: Story, row: WorkloadRow): Promise<void> {
  const { id: workload_id, run_epoch, idle_after_ms: after_ms } = row;
  const cause = { now: clock.now(), actor: 'controller', request_id: null };
  const { outcome } = await store.transact('parkIdle', {
    ...{ ...cause, workload_id, run_epoch, after_ms },
  });
  const may = row.state === 'running' && row.intent === 'running';
  assert.equal(outcome, may ? 'parked' : 'changed_meanwhile');
}

/** The machine is taken back from everybody, or let go; either way time has its effect on that. */
async function takeBack({ store, clock, ids }: Story, { do: what, which }: Step): Promise<void> {
  const { machine_id, tenant_id } = ids;
  const cause = { now: clock.now(), actor: 'user:ada', request_id: 'r' };
  const own = { ...cause, machine_id, tenant_id };
  if (what === 'reclaim') {
    const ask = { by: 'ada', scope: 'all', start: { when: 'now' }, until: null } as const;
    const grace_ms = which % 2 === 0 ? 0 : 3000;
    await store.transact('reclaimMachine', { ...own, ...ask, grace_ms, guard: null });
  } else {
    await store.transact('releaseMachine', own);
  }
  await store.transact('advanceReclaim', { ...cause, machine_id });
  const rows = await workloadsOf(store);
  const [machine] = await select<{ reclaim: string }>(store, 'select reclaim from machines');
  const is_held = machine?.reclaim.includes('"held"') === true;
  for (const row of rows) {
    if (is_held) assert.ok(row.state !== 'running' && row.state !== 'provisioning', row.state);
    const is_parked = row.state === 'stopped' && row.intent === 'running';
    const is_preempted = is_parked && row.park_cause === 'preempted';
    if (is_preempted && machine?.reclaim === '') assert.equal(row.code, 'quota_exceeded');
  }
}

/** What was stopped for being idle is woken, and what a person stopped never is. */
async function wakeIdle({ store, clock }: Story, row: WorkloadRow, has_room: boolean) {
  const { id: workload_id } = row;
  const cause = { now: clock.now(), actor: 'gateway', request_id: null };
  const { outcome } = await store.transact('wakeIdle', { ...cause, workload_id, how: 'a test' });
  assert.equal(outcome, expectedWake(row, has_room));
  const [after] = (await workloadsOf(store)).filter(({ id }) => id === workload_id);
  if (outcome === 'woken') assert.equal(after?.park_cause, 'none');
  else assert.deepEqual(after, row);
}

function expectedWake({ state, intent, park_cause }: WorkloadRow, has_room: boolean): string {
  if (park_cause !== 'idle' || intent !== 'running') return 'not_idle';
  if (state === 'stopped') return has_room ? 'woken' : 'quota_exceeded';
  return state === 'stopping' ? 'woken' : 'not_idle';
}

const isOverQuota = (result: { code?: string }) => result.code === 'quota_exceeded';

async function limitWorkloads({ store, clock, ids }: Story, workloads: number | null) {
  const scope = { tenant_id: ids.tenant_id, user: null, gpu_class: null };
  await store.transact('setQuota', { ...scope, limits: { workloads }, now: clock.now() });
}

/** The model of a quota: what claims is what is neither stopped, failed nor deleted. */
async function workloadQuota({ store }: Story): Promise<{ has_room: boolean }> {
  const rows = await workloadsOf(store);
  const used = rows.filter(({ state }) => !['stopped', 'failed', 'deleted'].includes(state)).length;
  const [quota] = await select<{ workloads: number | null }>(store, 'select * from quotas');
  return { has_room: used < (quota?.workloads ?? Number.POSITIVE_INFINITY) };
}

async function place({ store, clock, ids }: Story, row: WorkloadRow): Promise<void> {
  await store.transact('placeWorkload', {
    workload_id: row.id,
    revision: row.revision,
    placement: {
      machine_id: ids.machine_id,
      machine_name: 'desk',
      driver: 'sim',
      isolation: 'weak',
      placed_class: 'cpu-1c-2g',
    },
    now: clock.now(),
    actor: 'controller',
    request_id: null,
  });
}

async function report(story: Story, step: Extract<Step, { do: 'report' }>): Promise<void> {
  const runs = await runsOf(story.store);
  const run = runs[step.which % Math.max(1, runs.length)];
  if (run === undefined) return;
  await reportRun(story, run, step.says, step.oom);
}

/** A workload is launched first thing, placed, and its run is ready. */
export async function takeReady(story: Story): Promise<void> {
  await take(story, { do: 'launch', which: 0, clock_ms: 0 });
  await take(story, { do: 'place', which: 0, clock_ms: 1 });
  const [run] = await runsOf(story.store);
  assert.ok(run);
  await reportRun(story, run, 'ready');
}

export async function reportRun(
  { store, clock, ids, proven }: Story,
  run: RunRow,
  state: ObservedRun['state'],
  oom = false,
  more: Partial<ObservedRun> = {},
): Promise<{ changed: number }> {
  const { workload_id, replica, run_epoch } = run;
  if (['ended', 'parked', 'removed'].includes(state)) proven.add(nameOf(run));
  const exit = state === 'ended' ? { code: 1, signal: null, out_of_memory: oom } : null;
  const facts = { stages: [], exit, reason: null, details: {}, log_tail: null };
  return store.transact('applyReport', {
    machine_id: ids.machine_id,
    machine_name: 'desk',
    observed: [{ workload_id, replica, run_epoch, state, ...facts, ...more }],
    now: clock.now(),
    actor: 'machine:desk',
    request_id: null,
  });
}

const nameOf = (run: Pick<RunRow, 'workload_id' | 'replica' | 'run_epoch'>) =>
  `${run.workload_id}.${run.replica}.${run.run_epoch}`;

/** What must hold of a store, whatever happened to it. */
export async function checkAll(story: Story): Promise<void> {
  const { store, proven } = story;
  const [rows, runs] = [await workloadsOf(store), await runsOf(store)];
  for (const row of rows) await checkTimeline(store, row);
  checkRuns(rows, runs);
  type Hold = Row & { workload_id: string; replica: number; run_epoch: number } & {
    released_at: number | null;
    cpu_millis: number;
    memory_bytes: number;
  };
  const holds = await select<Hold>(store, "select * from holds where device = ''");
  assert.equal(holds.length, runs.length, 'one hold per run');
  for (const hold of holds) {
    assert.equal(hold.released_at !== null, proven.has(nameOf(hold)), 'released by proof alone');
  }
  const open = holds.filter((hold) => hold.released_at === null);
  const sum = (name: 'cpu_millis' | 'memory_bytes') =>
    open.reduce((all, hold) => all + hold[name], 0);
  assert.ok(sum('cpu_millis') <= offered.cpu_millis, 'CPU is promised once');
  assert.ok(sum('memory_bytes') <= offered.memory_bytes, 'memory is promised once');
  await checkLedger(store);
}

/** Replays a timeline from nothing: it gives the state, without gap, in time. */
async function checkTimeline(store: RigStore, row: WorkloadRow): Promise<void> {
  const events = await eventsOf(store, row.id);
  let state: State | null = null;
  let at = 0;
  for (const [index, event] of events.entries()) {
    assert.equal(event.number, index + 1, 'numbers have no gap');
    assert.ok(event.at >= at, 'times never decrease');
    at = event.at;
    if (event.kind === 'note') continue;
    assert.equal(event.from_state, state, 'each event begins where the last ended');
    const next: State | null =
      state === null ? 'pending' : nextState(state, event.event as StateEvent);
    assert.equal(event.to_state, next, 'each event is one of the table');
    state = next;
  }
  assert.equal(state, row.state, 'the timeline tells the state');
  assert.equal(events.length, row.event_number);
  assert.equal(at, row.event_at);
}

function checkRuns(rows: WorkloadRow[], runs: RunRow[]): void {
  for (const row of rows) {
    const own = runs.filter((run) => run.workload_id === row.id);
    const first = row.restored_epoch === 0 ? 1 : (own[0]?.run_epoch ?? 1);
    assert.deepEqual(
      own.map((run) => run.run_epoch),
      own.map((_, index) => index + first),
      'run_epoch rises by one',
    );
    assert.equal(row.run_epoch, own.at(-1)?.run_epoch ?? 0);
    const unproven = own.filter((run) => run.ended_at === null);
    assert.ok(unproven.length <= 1, 'at most one unproven run');
    if (row.state === 'deleted') assert.ok(own.every((run) => run.removed_at !== null));
    if (['stopped', 'failed', 'pending', 'queued'].includes(row.state)) {
      assert.equal(unproven.length, 0, `${row.state} has no run that may execute`);
    }
    if (['provisioning', 'running'].includes(row.state)) assert.equal(unproven.length, 1);
    if (row.state === 'stopping') {
      assert.equal(unproven.length, 1, 'stopping waits for something');
      assert.ok(unproven.every((run) => run.wanted !== 'run'));
    }
    const superseded = own.filter((run) => run.run_epoch < row.run_epoch && !run.removed_at);
    for (const run of superseded) assert.equal(run.wanted, 'remove', 'a superseded run goes');
  }
}
