import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAgentRig, desire, runOf } from '../../../test/lib/agent-rig.ts';
import type { DesiredRun } from '../../contract/sync.ts';
import { refuses_nothing } from '../../core/refusals.ts';
import { observedOf } from '../local-run.ts';
import { default_policy, type Policy } from '../policy.ts';
import { reconcile } from '../reconcile.ts';
import { createRuns } from '../runs.ts';
import { type Guard, startGuard } from './guard.ts';
import type { Readings } from './readings.ts';

const gib = 2 ** 30;

const quiet: Readings = {
  ...{ others_millis: 0, cores_millis: 8000, minute: 0, button: null },
  ...{ memory_available_bytes: 16 * gib, memory_total_bytes: 32 * gib, memory_stall_percent: 0 },
  disk: { free_bytes: 200e9, total_bytes: 500e9 },
  owner: { idle_ms: 'nobody', has_screen: false },
  power: { source: 'mains', percent: null },
  ...{ cpu_celsius: 50, gpu_celsius: null, foreign_gpus: [] },
};
const on_battery: Partial<Readings> = { power: { source: 'battery', percent: 80 } };
const pressed_now: Partial<Readings> = { button: { level: 5, everyone: false } };

/** An agent's runs with a guard over them; the control plane is this test. */
function createGuardRig() {
  const rig = createAgentRig();
  const set = { readings: {} as Partial<Readings>, policy: {} as Partial<Policy> };
  let news = 0;
  const begin = () => {
    let guard: Guard | null = null;
    const runs = createRuns({
      ...rig.deps,
      changed: () => undefined,
      refusal: (desired) => guard?.refusal(desired) ?? null,
    });
    guard = startGuard({
      sensors: {
        read: async () => ({ ...quiet, ...set.readings }),
        pressed: () => JSON.stringify(set.readings.button ?? null),
      },
      policy: {
        current: () => ({
          policy: { ...default_policy, ...set.policy },
          path: '/p',
          problem: null,
        }),
      },
      ...{ drivers: rig.deps.drivers, clock: rig.clock, log: rig.deps.log, locals: runs.locals },
      park: runs.parkFor,
      changed: () => {
        news += 1;
      },
    });
    const made = guard;
    return {
      runs,
      guard: made,
      wish(...desired: DesiredRun[]) {
        made.heard();
        made.learn(desired);
        runs.carryOut(reconcile(desired, runs.facts()));
      },
      phase: () => runs.locals()[0]?.phase,
      seen: () => runs.locals().map((one) => observedOf(one, rig.clock)),
      async stop() {
        await Promise.all([made.stop(), rig.clock.advance(1)]);
        await runs.leave();
      },
    };
  };
  const isPaused = async () => (await rig.driver.observe())[0]?.paused === true;
  return { rig, set, begin, isPaused, news: () => news };
}

const guest = (action?: DesiredRun['action'], run = runOf(1)): DesiredRun => ({
  ...desire(run, action),
  trust: 'community',
  sharing: 'community',
});

/** The sim driver takes another's row, so that guests may run in it. */
function asStrong(rig: ReturnType<typeof createAgentRig>): void {
  for (const [name, driver] of rig.deps.drivers) {
    rig.deps.drivers.set(name, { ...driver, as: 'libvirt' });
  }
}

async function pass(rig: ReturnType<typeof createAgentRig>, ms: number): Promise<void> {
  for (let gone = 0; gone < ms; gone += 500) await rig.clock.advance(500);
}

test('a guest that needs no GPU stands still on battery, and goes on on mains; nobody calls it hung', async () => {
  const { rig, set, begin, isPaused } = createGuardRig();
  asStrong(rig);
  const agent = begin();
  agent.wish(guest());
  await rig.until(() => agent.phase() === 'ready', 'it is ready');
  set.readings = on_battery;
  await pass(rig, 6_000);
  assert.equal(await isPaused(), true);
  assert.deepEqual(agent.seen()[0]?.guarded, { step: 'paused', why: 'on_battery' });
  assert.equal(agent.guard.report()?.level, 3);
  await pass(rig, 120_000);
  assert.deepEqual([agent.phase(), await isPaused()], ['ready', true]);
  set.readings = {};
  await pass(rig, 70_000);
  assert.deepEqual([agent.phase(), await isPaused()], ['ready', false]);
  const [after] = agent.seen();
  assert.equal(after?.guarded, undefined);
  assert.ok((after?.paused_ms ?? 0) >= 120_000);
  await agent.stop();
  rig.close();
});

test("the owner's own run is left alone, until the owner says that all are meant", async () => {
  const { rig, set, begin, isPaused } = createGuardRig();
  const agent = begin();
  agent.wish(desire(runOf(1)));
  await rig.until(() => agent.phase() === 'ready', 'it is ready');
  set.readings = on_battery;
  await pass(rig, 40_000);
  assert.equal(await isPaused(), false);
  set.readings = { button: { level: 4, everyone: true } };
  await pass(rig, 6_000);
  assert.deepEqual([await isPaused(), agent.phase()], [true, 'ready']);
  set.readings = {};
  await pass(rig, 6_000);
  assert.equal(await isPaused(), false);
  await agent.stop();
  rig.close();
});

test('an agent that begins anew finds what stands still, and lets it go on once it knows whose it is', async () => {
  const { rig, set, begin, isPaused } = createGuardRig();
  asStrong(rig);
  const first = begin();
  first.wish(guest());
  await rig.until(() => first.phase() === 'ready', 'it is ready');
  set.readings = on_battery;
  await pass(rig, 6_000);
  await first.stop();
  assert.equal(await isPaused(), true);
  set.readings = {};
  const second = begin();
  await second.runs.adopt();
  await pass(rig, 20_000);
  assert.equal(await isPaused(), true, 'nobody has said yet whose it is');
  second.wish({ ...guest(), begun: true });
  await pass(rig, 6_000);
  assert.equal(await isPaused(), false);
  await rig.until(() => second.phase() === 'ready', 'it goes on');
  assert.equal(rig.started.length, 1);
  await second.stop();
  rig.close();
});

test('while the machine is needed no guest begins, and the owner does', async () => {
  const { rig, set, begin } = createGuardRig();
  asStrong(rig);
  set.readings = { owner: { idle_ms: 0, has_screen: true } };
  const agent = begin();
  await pass(rig, 1_000);
  agent.wish(guest(), desire(runOf(2)));
  await rig.until(() => agent.runs.locals().some(({ phase }) => phase === 'ready'), 'one is ready');
  const [kept_out, own] = agent.seen();
  assert.deepEqual([kept_out?.state, kept_out?.reason], ['ended', 'machine_guarded']);
  assert.equal(kept_out?.details.why, 'it is in use by its owner');
  assert.equal(own?.state, 'ready');
  await agent.stop();
  rig.close();
});

test('what the policy of the machine forbids does not begin there, by its rule', async () => {
  const { rig, set, begin } = createGuardRig();
  asStrong(rig);
  const agent = begin();
  set.policy = { refuses: { ...refuses_nothing, tenants: ['friends'], max_cpu_millis: 500 } };
  await pass(rig, 1_000);
  const rules = (desired: DesiredRun) => agent.guard.refusal(desired)?.details.rule;
  assert.equal(rules(guest()), 'guests.tenants');
  assert.equal(rules({ ...guest(), tenant: 'others' }), 'guests.tenants');
  assert.equal(rules({ ...guest(), tenant: 'friends' }), 'guests.max_cpu');
  assert.equal(agent.guard.refusal(desire(runOf(1))), null);
  agent.wish(guest());
  assert.equal(agent.seen()[0]?.reason, 'refused_by_machine');
  assert.equal(rig.started.length, 0);
  await agent.stop();
  rig.close();
});

test('where the control plane cannot be asked the agent parks guests itself, and says why', async () => {
  const { rig, set, begin } = createGuardRig();
  asStrong(rig);
  const agent = begin();
  const wishes = [guest(), desire(runOf(2))];
  agent.wish(...wishes);
  const areReady = () => agent.runs.locals().every(({ phase }) => phase === 'ready');
  await rig.until(areReady, 'both are ready');
  set.readings = pressed_now;
  await pass(rig, 30_000);
  assert.ok(areReady(), 'the control plane may still be asked');
  await pass(rig, 45_000);
  const states = agent.seen().map(({ state, reason }) => [state, reason]);
  assert.deepEqual(states, [
    ['parked', 'owner_paused'],
    ['ready', null],
  ]);
  agent.wish(...wishes.map((one) => ({ ...one, begun: true })));
  await pass(rig, 5_000);
  assert.equal(agent.seen()[0]?.state, 'parked');
  assert.equal(rig.started.length, 2);
  await agent.stop();
  rig.close();
});

test('a look that fails changes nothing, and is done again', async () => {
  const { rig, set, begin, news } = createGuardRig();
  const agent = begin();
  await pass(rig, 1_000);
  Object.defineProperty(set, 'readings', {
    configurable: true,
    get: () => {
      throw new Error('no eyes');
    },
  });
  await pass(rig, 40_000);
  assert.equal(agent.guard.report()?.level, 0);
  assert.ok(rig.lines.some(({ message }) => message === 'the guard could not look'));
  Object.defineProperty(set, 'readings', { value: on_battery, configurable: true });
  const before = news();
  await pass(rig, 40_000);
  assert.equal(agent.guard.report()?.level, 3);
  assert.ok(news() > before, 'it is to be reported');
  await agent.stop();
  rig.close();
});
