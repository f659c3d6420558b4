/**
 * Use of workloads from samples to stopping and waking, with a real store, API and sync, on a clock
 * that only moves when told.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settle } from '../../test/lib/fake-clock.ts';
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
} from '../../test/lib/rig.ts';
import { limits } from '../contract/limits.ts';
import type { WorkloadUse } from '../contract/stats.ts';
import type { AgentIdentity, Report, RunSample } from '../contract/sync.ts';
import { makeId } from '../core/ids.ts';
import type { WorkloadRow } from '../store/events.ts';
import { createTargets } from './targets.ts';
import type { Use } from './use.ts';
import { openUse } from './use.ts';

const every_ms = limits.sample_every_ms;
const hour_ms = 3600_000;
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

type Run = { workload_id: string; replica: number; run_epoch: number };
type Tale = {
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
async function runAnew(tale: Omit<Tale, 'use'>): Promise<void> {
  const { rig, id, run } = tale;
  const { revision } = await rowOf(tale);
  const cause = { now: rig.clock.now(), actor: 'controller', request_id: null };
  const chosen = { machine_id: rig.ids.machine_id, machine_name: 'desk', driver: 'sim' } as const;
  const placement = { ...chosen, isolation: 'weak' as const, placed_class: 'cpu-1c-2g' };
  await rig.store.transact('placeWorkload', { ...cause, workload_id: id, revision, placement });
  run.run_epoch += 1;
  await observe(tale, 'ready');
}

function observe({ report, run }: Pick<Tale, 'report' | 'run'>, state: 'ready' | 'parked') {
  const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
  return report({ observed: [{ ...run, state, ...facts }] });
}

async function rowOf({ rig, id }: Pick<Tale, 'rig' | 'id'>): Promise<WorkloadRow> {
  const text = 'select * from workloads where id = $1';
  const [row] = await select<WorkloadRow>(rig.store, text, [id]);
  assert.ok(row);
  return row;
}

const sampleOf = (run: Run, more: Partial<RunSample> = {}): RunSample => ({
  ...{ ...run, ago_ms: 0, span_ms: every_ms, cpu_millis: 2, memory_bytes: gib },
  ...{ disk_bytes: null, gpus: null, ...more },
});

/** So many samples, one every 10 s. */
async function live(tale: Tale, count: number, more: Partial<RunSample> = {}): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    await tale.rig.clock.advance(every_ms);
    await tale.report({ samples: [sampleOf(tale.run, more)] });
  }
}

async function useOf({ rig, id }: Tale): Promise<WorkloadUse | null> {
  return (await ask(rig, 'GET', `/v1/workloads/${id}`)).body.use as WorkloadUse | null;
}

async function codesOf({ rig, id }: Tale): Promise<string[]> {
  const text = 'select code from workload_events where workload_id = $1 order by number';
  const rows = await select<{ code: string | null }>(rig.store, text, [id]);
  return rows.flatMap(({ code }) => code ?? []).filter((code) => code.startsWith('idle_'));
}

function given(
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

given('what a run uses is shown while it is fresh, and costs no write', async (tale) => {
  const { rig, written } = tale;
  assert.equal((await useOf(tale))?.at, null);
  await live(tale, 1, { span_ms: 0, cpu_millis: null });
  await rig.clock.advance(0);
  written().length = 0;
  await live(tale, 3);
  assert.deepEqual(
    written().filter((name) => name !== 'saveUses' && !name.startsWith('touch')),
    [],
  );
  const use = await useOf(tale);
  assert.deepEqual([use?.cpu_millis, use?.memory_bytes, use?.disk_bytes], [2, gib, null]);
  assert.equal(use?.idle_left_ms, hour_ms - 3 * every_ms);
  assert.equal(use?.busy_with, null);
  await rig.clock.advance(61_000);
  assert.equal((await useOf(tale))?.cpu_millis, null, 'what is old is not shown as if it were new');
});

given('a machine tells of its own runs only', async (tale) => {
  const { rig, use, run } = tale;
  const samples = [sampleOf(run, { cpu_millis: 900 })];
  await use.samples.take('another-machine', 5, samples);
  assert.equal(use.samples.latest(run), null);
  await use.samples.take(rig.ids.machine_id, 5, [sampleOf({ ...run, run_epoch: 9 })]);
  assert.equal(use.samples.latest({ ...run, run_epoch: 9 }), null);
  await use.samples.take(rig.ids.machine_id, 5, samples);
  await use.samples.take('another-machine', 5, [sampleOf(run, { cpu_millis: 1 })]);
  assert.equal(use.samples.latest(run)?.cpu_millis, 900);
});

given('every 5 minutes rows are written together, and the rest at the end', async (tale) => {
  const { rig, id } = tale;
  await live(tale, 65, { cpu_millis: 300 });
  const stats = async (range: string) =>
    (await ask(rig, 'GET', `/v1/workloads/${id}/stats?range=${range}`)).body as unknown as {
      step_ms: number;
      points: { at: number; cpu_millis: number; cpu_most_millis: number }[];
    };
  const hour = await stats('1h');
  assert.deepEqual([hour.points.length, hour.step_ms], [65, every_ms]);
  const day = await stats('24h');
  assert.equal(day.step_ms, 300_000);
  assert.ok(day.points.length >= 1 && day.points.every((one) => one.cpu_most_millis === 300));
  assert.equal(tale.written().filter((name) => name === 'recordSamples').length, 2);
  await tale.use.samples.stop();
  const count = 'select cast(sum(sample_count) as bigint) as count from run_samples';
  assert.deepEqual(await select(rig.store, count), [{ count: 65 }]);
  const refused = await ask(rig, 'GET', `/v1/workloads/${id}/stats?range=90d`);
  assert.equal(refused.status, 400);
});

given('nobody uses it: it is warned of, stopped, and keeps its intent', async (tale) => {
  await live(tale, 1, { span_ms: 0, cpu_millis: null });
  await live(tale, 332);
  assert.deepEqual(await codesOf(tale), ['idle_soon']);
  assert.equal((await rowOf(tale)).state, 'running');
  assert.ok(((await useOf(tale))?.idle_left_ms ?? 0) <= limits.idle_warning_ms);
  await live(tale, 33);
  const row = await rowOf(tale);
  assert.deepEqual([row.state, row.intent, row.park_cause], ['stopping', 'running', 'idle']);
  await observe(tale, 'parked');
  assert.equal((await rowOf(tale)).state, 'stopped');
  assert.deepEqual(await codesOf(tale), ['idle_soon', 'idle_stopped', 'idle_stopped']);
});

const busy: [string, (tale: Tale, round: number) => Promise<void>][] = [
  ['a request now and then', async ({ use, id }) => use.lastUse.touch(id)],
  ['CPU', (tale) => live(tale, 1, { cpu_millis: 500 })],
  ['a GPU', (tale) => live(tale, 1, { gpus: [gpuOf(80)] })],
  ['a kernel at work', (tale) => live(tale, 1, { used: true })],
  ['what cannot be measured', (tale) => live(tale, 1, { cpu_millis: null })],
  ['an agent that begins anew', (tale) => live(tale, 1, { span_ms: 0 })],
];
const gpuOf = (busy_percent: number) => ({ uuid: 'G', busy_percent, memory_bytes: gib });
for (const [what, act] of busy) {
  given(`${what} keeps it running`, async (tale) => {
    for (let round = 0; round < 4; round += 1) {
      await live(tale, 200);
      await act(tale, round);
    }
    assert.deepEqual([(await rowOf(tale)).state, await codesOf(tale)], ['running', []]);
  });
}

given('what is held open is in use the whole time', async (tale) => {
  const unused = tale.use.lastUse.hold(tale.id);
  await live(tale, 400);
  assert.equal((await rowOf(tale)).state, 'running');
  assert.equal((await useOf(tale))?.busy_with, 'request');
  unused();
  unused();
  await live(tale, 325);
  assert.deepEqual([(await rowOf(tale)).state, await codesOf(tale)], ['running', []]);
  await live(tale, 40);
  assert.equal((await rowOf(tale)).park_cause, 'idle');
});

given(
  'a wall clock that steps and a time in which nobody tells make nothing idle',
  async (tale) => {
    const { rig } = tale;
    await live(tale, 10);
    rig.clock.stepWall(400 * 24 * hour_ms);
    await live(tale, 10);
    rig.clock.stepWall(-800 * 24 * hour_ms);
    await live(tale, 10);
    await rig.clock.advance(4 * hour_ms);
    assert.equal((await rowOf(tale)).state, 'running');
    // Its agent was cut off and kept nothing but what it saw last.
    await live(tale, 10);
    assert.deepEqual([(await rowOf(tale)).state, await codesOf(tale)], ['running', []]);
  },
);

given('without a policy nothing is stopped', (tale) => idleFor(tale, 500, 'running'), {
  after_ms: null,
});
async function idleFor(tale: Tale, count: number, state: string): Promise<void> {
  await live(tale, count);
  assert.equal((await rowOf(tale)).state, state);
  assert.equal((await useOf(tale))?.idle_left_ms, null);
}

given('a policy may be set, changed and lifted while it runs', async (tale) => {
  const { rig, id } = tale;
  const set = (idle_policy: unknown, token?: string) =>
    ask(rig, 'PUT', `/v1/workloads/${id}/idle`, { body: { idle_policy }, ...(token && { token }) });
  const short = await set({ after_ms: limits.least_idle_ms });
  assert.deepEqual([short.status, short.body.idle_policy], [200, { after_ms: 60_000 }]);
  assert.equal((await set({ after_ms: 5 })).status, 400);
  assert.equal((await set({ after_ms: 60_000, after: 1 })).status, 400);
  assert.equal((await set(null)).body.idle_policy, null);
  await live(tale, 30);
  assert.equal((await rowOf(tale)).state, 'running');
  await set({ after_ms: 60_000 });
  await live(tale, 5);
  assert.equal((await rowOf(tale)).park_cause, 'idle');
  const log = await select<{ route: string }>(rig.store, 'select route from activity');
  assert.equal(log.filter(({ route }) => route === 'setIdlePolicy').length, 3);
  assert.equal(
    (await ask(rig, 'PUT', '/v1/workloads/none/idle', { body: { idle_policy: null } })).status,
    404,
  );
});

given('a restart forgets no use, and counts nothing twice', async (tale) => {
  const { rig, id } = tale;
  await live(tale, 300);
  const before = tale.use.lastUse.of(id, 1).idle_ms;
  assert.equal(before, 300 * every_ms);
  await tale.use.stop();
  const store = rig.apiDeps.store;
  const next = await openUse({ store, clock: rig.clock, log: rig.log, changed: () => {} });
  const after = next.lastUse.of(id, 1);
  assert.deepEqual([after.idle_ms, after.debt_ms], [before, 70_000]);
  assert.ok(after.used_at !== null || before > 0);
  // The agent tells again what nobody answered, and of the time in between as one.
  const { machine_id } = rig.ids;
  const mono_ms = Math.floor(rig.clock.monotonic()) + 5000;
  await next.samples.take(machine_id, mono_ms, [sampleOf(tale.run)]);
  assert.equal(next.lastUse.of(id, 1).idle_ms, before);
  const span_ms = 2 * hour_ms;
  await next.samples.take(machine_id, mono_ms + span_ms, [sampleOf(tale.run, { span_ms })]);
  assert.equal(next.lastUse.of(id, 1).idle_ms, before + span_ms - 70_000);
  await next.idle.look();
  assert.deepEqual(await codesOf(tale), ['idle_soon'], 'nothing is stopped without a warning');
  next.lastUse.touch(id);
  assert.equal(next.lastUse.of(id, 1).idle_ms, 0);
  await next.stop();
  const saved = await select<{ idle_ms: number }>(rig.store, 'select idle_ms from workload_uses');
  assert.deepEqual(saved, [{ idle_ms: 0 }]);
});

given('many uses are written together, at most once a minute', async (tale) => {
  const { rig, use, id, written } = tale;
  const saves = () => written().filter((name) => name === 'saveUses').length;
  await rig.clock.advance(120_000);
  const before = saves();
  use.lastUse.touch(id);
  await settle();
  assert.equal(saves() - before, 1, 'the first at once');
  for (let second = 0; second < 59; second += 1) {
    use.lastUse.touch(id);
    await rig.clock.advance(1000);
  }
  assert.equal(saves() - before, 1);
  await rig.clock.advance(2000);
  assert.equal(saves() - before, 2);
  await rig.clock.advance(600_000);
  assert.equal(saves() - before, 2, 'and nothing where nothing happens');
});

/** Stopped for being idle, all the way. */
async function park(tale: Tale): Promise<void> {
  await live(tale, 370);
  await observe(tale, 'parked');
  const { state, park_cause } = await rowOf(tale);
  assert.deepEqual([state, park_cause], ['stopped', 'idle']);
}

given('a request wakes it, waits for it, and then goes to the new run', async (tale) => {
  const { rig, use, id } = tale;
  await park(tale);
  const targets = createTargets(rig.apiDeps.store, use.waker);
  const key = { id: 'k', tenant_id: rig.ids.tenant_id, workload_id: id };
  const usable = { ...key, expires_at: null, revoked_at: null };
  const signal = new AbortController().signal;
  const find = () => targets.findTarget(usable, 'chat', signal);
  const asked = Promise.all([find(), find(), find()]);
  await settle();
  assert.equal((await rowOf(tale)).state, 'pending');
  assert.equal(rig.woken.controller > 0, true);
  await runAnew(tale);
  await rig.clock.advance(500);
  for (const found of await asked) assert.ok(found.ok && found.run.run_epoch === 2);
  assert.deepEqual((await codesOf(tale)).at(-1), 'idle_woken');
  // A new run is a new beginning.
  await live(tale, 300);
  assert.equal((await rowOf(tale)).state, 'running');
});

given('a request that waits long enough is told when to come back', async (tale) => {
  const { rig, use, id } = tale;
  await park(tale);
  const targets = createTargets(rig.apiDeps.store, use.waker);
  const key = { id: 'k', tenant_id: rig.ids.tenant_id, workload_id: id };
  const usable = { ...key, expires_at: null, revoked_at: null };
  const left = new AbortController();
  const impatient = targets.findTarget(usable, 'chat', left.signal);
  const patient = targets.findTarget(usable, 'chat', new AbortController().signal);
  await settle();
  left.abort();
  const gone = await impatient;
  assert.ok(!gone.ok && gone.code === 'endpoint_waking');
  await rig.clock.advance(limits.wake_hold_ms + 1000);
  const told = await patient;
  assert.ok(!told.ok && told.code === 'endpoint_waking');
  assert.equal((await rowOf(tale)).state, 'pending', 'it comes all the same');
});

given('its page wakes it, and what a person stopped is woken by nothing', async (tale) => {
  const { rig, use, id } = tale;
  await park(tale);
  assert.equal((await use.waker.wake(id, 'a test')).outcome, 'woken');
  await runAnew(tale);
  await park(tale);
  assert.equal((await ask(rig, 'POST', `/v1/workloads/${id}/stop`)).status, 202);
  assert.equal((await use.waker.wake(id, 'a test')).outcome, 'not_idle');
  const targets = createTargets(rig.apiDeps.store, use.waker);
  const key = { id: 'k', tenant_id: rig.ids.tenant_id, workload_id: id };
  const usable = { ...key, expires_at: null, revoked_at: null };
  const found = await targets.findTarget(usable, 'chat', new AbortController().signal);
  assert.ok(!found.ok && found.code === 'endpoint_stopped');
  assert.equal((await rowOf(tale)).state, 'stopped');
});

given('who comes while it is being stopped wakes it', async (tale) => {
  const { rig, use, id } = tale;
  await live(tale, 358);
  const read = rig.store.transact;
  rig.store.transact = (async (name: string, args: never) => {
    if (name === 'parkIdle') use.lastUse.touch(id);
    return read(name as never, args);
  }) as typeof rig.store.transact;
  await live(tale, 10);
  rig.store.transact = read;
  const row = await rowOf(tale);
  assert.deepEqual([row.state, row.park_cause, row.intent], ['stopping', 'none', 'running']);
});
