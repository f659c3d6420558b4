/**
 * An endpoint that runs by a fallback goes back to what it asked once there is room for it: after
 * half an hour, unused, and only where that was asked for.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, createRig, gib, inventoryOf, type Rig, select } from '../../test/lib/rig.ts';
import { every_ms, sampleOf } from '../../test/lib/use-rig.ts';
import type { Report } from '../contract/sync.ts';

const minute_ms = 60_000;
const model = 'smollm2-135m';
const chat = {
  ...{ kind: 'endpoint', model, name: 'chat', gpu_class: 'cpu-4c-8g' },
  ...{ fallback: ['class:cpu-1c-2g'], fallback_after: 0, fallback_return: true },
};

type Tale = { rig: Rig; report(more: Partial<Report>): Promise<unknown>; pass(): Promise<unknown> };

/** One core of four is taken, so that the endpoint runs by its fallback. */
function given(name: string, body: (tale: Tale) => Promise<void>, asked: object = chat): void {
  test(name, async () => {
    const rig = await createRig();
    try {
      await rig.startUse();
      const report = await greet(rig);
      await ask(rig, 'POST', '/v1/workloads', { body: { kind: 'endpoint', model, name: 'other' } });
      const controller = rig.startController();
      await controller.pass();
      await ask(rig, 'POST', '/v1/workloads', { body: asked });
      await controller.pass();
      const tale = { rig, report, pass: () => controller.pass() };
      await say(tale, 'other', 'ready');
      await say(tale, 'chat', 'ready');
      assert.deepEqual(await stands(rig), ['running', 'cpu-1c-2g']);
      await body(tale);
    } finally {
      await rig.close();
    }
  });
}

async function greet({ sync, ids, clock }: Rig): Promise<Tale['report']> {
  const inventory = inventoryOf({ cpu_millis: 4000, memory_bytes: 16 * gib });
  const known = { store_uuid: 's', store_epoch: 1, agent_epoch: 0 };
  const words = { boot_id: 'b', hello_id: 'h', known, inventory };
  const greeted = await sync.hello(ids.machine_id, words);
  assert.ok(greeted.outcome === 'greeted');
  const { outcome: _, ...identity } = greeted;
  let seq = 0;
  return (more) => {
    seq += 1;
    const said = { boot_id: 'b', have_generation: -1, observed: [], inventory: null, seq };
    const mono_ms = Math.floor(clock.monotonic()) + 5000;
    const told = { ...identity, ...said, mono_ms, ...more };
    return sync.sync(ids.machine_id, told, AbortSignal.abort());
  };
}

type RunRow = { workload_id: string; replica: number; run_epoch: number };

async function runOf({ rig }: Tale, name: string): Promise<RunRow> {
  const text = `select w.id as workload_id, 0 as replica, w.run_epoch from workloads w
    where w.name = $1`;
  const [run] = await select<RunRow>(rig.store, text, [name]);
  assert.ok(run);
  return { ...run };
}

async function say(tale: Tale, name: string, state: 'ready' | 'parked'): Promise<void> {
  const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
  await tale.report({ observed: [{ ...(await runOf(tale, name)), state, ...facts }] });
}

/** So many samples of a quiet endpoint, every 10 s. */
async function quiet(tale: Tale, count: number): Promise<void> {
  const run = await runOf(tale, 'chat');
  for (let at = 0; at < count; at += 1) {
    await tale.rig.clock.advance(every_ms);
    await tale.report({ samples: [sampleOf(run)] });
  }
}

async function stands(rig: Rig): Promise<unknown[]> {
  const { body } = await ask(rig, 'GET', '/v1/workloads/chat');
  return [body.state, (body.placement as { placed_class: string } | null)?.placed_class];
}

async function stopOther(tale: Tale): Promise<void> {
  await ask(tale.rig, 'POST', '/v1/workloads/other/stop');
  await say(tale, 'other', 'parked');
}

given('it goes back, and says why', async (tale) => {
  await quiet(tale, 180);
  await tale.pass();
  assert.deepEqual(await stands(tale.rig), ['running', 'cpu-1c-2g'], 'there is no room yet');
  await stopOther(tale);
  await quiet(tale, 1);
  await tale.pass();
  assert.deepEqual(await stands(tale.rig), ['stopping', 'cpu-1c-2g']);
  await say(tale, 'chat', 'parked');
  await tale.pass();
  assert.deepEqual(await stands(tale.rig), ['provisioning', 'cpu-4c-8g']);
  const { body } = await ask(tale.rig, 'GET', '/v1/workloads/chat');
  assert.equal(body.fallback_taken, null);
  const events = (await ask(tale.rig, 'GET', '/v1/workloads/chat/events')).body.items ?? [];
  const messages = events.map((event) => String(event.message));
  assert.ok(
    messages.some((one) => /room for cpu-4c-8g again: it goes back .* cpu-1c-2g/.test(one)),
  );
});

given('not within half an hour of its placement, and by itself after it', async (tale) => {
  await stopOther(tale);
  await quiet(tale, 60);
  await tale.pass();
  assert.deepEqual(await stands(tale.rig), ['running', 'cpu-1c-2g']);
  await quiet(tale, 130);
  await tale.rig.clock.advance(minute_ms);
  assert.deepEqual(await stands(tale.rig), ['stopping', 'cpu-1c-2g'], 'the loop looks by itself');
});

given('not while it is in use', async (tale) => {
  const use = await tale.rig.startUse();
  const { workload_id } = await runOf(tale, 'chat');
  await quiet(tale, 180);
  const release = use.lastUse.hold(workload_id);
  await stopOther(tale);
  await quiet(tale, 30);
  await tale.pass();
  assert.deepEqual(await stands(tale.rig), ['running', 'cpu-1c-2g']);
  release();
  await quiet(tale, 5);
  await tale.pass();
  assert.deepEqual(await stands(tale.rig), ['running', 'cpu-1c-2g']);
  await quiet(tale, 2);
  await tale.pass();
  assert.deepEqual(await stands(tale.rig), ['stopping', 'cpu-1c-2g']);
});

given(
  'not where nobody asked for it',
  async (tale) => {
    await quiet(tale, 180);
    await stopOther(tale);
    await quiet(tale, 6);
    await tale.pass();
    assert.deepEqual(await stands(tale.rig), ['running', 'cpu-1c-2g']);
  },
  { ...chat, fallback_return: false },
);
