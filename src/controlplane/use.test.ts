/**
 * Use of workloads, from samples to stopping, with a real store, API and sync.
 */
import assert from 'node:assert/strict';
import { settle } from '../../test/lib/fake-clock.ts';
import { ask, gib, select } from '../../test/lib/rig.ts';
import {
  codesOf,
  every_ms,
  given,
  hour_ms,
  live,
  observe,
  rowOf,
  sampleOf,
  type Tale,
  useOf,
} from '../../test/lib/use-rig.ts';
import { limits } from '../contract/limits.ts';
import { openUse } from './use.ts';

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
