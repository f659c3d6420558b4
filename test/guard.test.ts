/**
 * The guard of a machine's owner, end to end: two tenants over the API, a made-up machine that a
 * guest may use, its real agent with a real guard, one clock.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GuardParts } from '../src/agent/guard/guard.ts';
import type { Readings } from '../src/agent/guard/readings.ts';
import { default_policy, type Policy } from '../src/agent/policy.ts';
import type { Machine } from '../src/contract/machines.ts';
import { createFleet, type Fleet } from './lib/fleet.ts';

const gib = 2 ** 30;
const minute_ms = 60_000;
const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
const notebook = { kind: 'notebook', gpu_class: 'cpu-1c-2g', disk_bytes: gib };
const rack = { name: 'rack', owner: 'ada', as: 'libvirt', sharing: 'community' } as const;

const quiet: Readings = {
  ...{ others_millis: 0, cores_millis: 8000, minute: 0, button: null },
  ...{ memory_available_bytes: 16 * gib, memory_total_bytes: 32 * gib, memory_stall_percent: 0 },
  disk: { free_bytes: 200e9, total_bytes: 500e9 },
  owner: { idle_ms: 'nobody', has_screen: false },
  power: { source: 'mains', percent: null },
  ...{ cpu_celsius: 50, gpu_celsius: null, foreign_gpus: [] },
};
const on_battery = { power: { source: 'battery', percent: 80 } } as const;

type Set = { readings: Partial<Readings>; policy: Partial<Policy> };

async function guarded(body: (fleet: Fleet, set: Set) => Promise<void>): Promise<void> {
  const set: Set = { readings: {}, policy: {} };
  const guard: GuardParts = {
    sensors: {
      read: async () => ({ ...quiet, ...set.readings }),
      pressed: () => JSON.stringify(set.readings.button ?? null),
    },
    policy: {
      current: () => ({ policy: { ...default_policy, ...set.policy }, path: null, problem: null }),
    },
  };
  const fleet = await createFleet([rack], { whole: true, guard: () => guard });
  try {
    await body(fleet, set);
  } finally {
    await fleet.close();
  }
}

const running = async (fleet: Fleet, slug: string, body: Record<string, unknown>) =>
  fleet.untilState(slug, (await fleet.launch(slug, body)).id, 'running');

async function seen(fleet: Fleet, slug: string): Promise<Machine> {
  const { body } = await fleet.ask(slug, 'GET', '/v1/machines');
  return (body.items as unknown as Machine[])[0] ?? assert.fail('there is no machine');
}

async function notesOf(fleet: Fleet, slug: string, id: string): Promise<string[]> {
  const { body } = await fleet.ask(slug, 'GET', `/v1/workloads/${id}/events`);
  return (body.items as { code: string | null }[]).flatMap(({ code }) => code ?? []);
}

test('on battery a guest stands still, is told why, waits with new ones, and goes on later', () =>
  guarded(async (fleet, set) => {
    const own = await running(fleet, 'ada', { ...endpoint, name: 'own' });
    const lab = await running(fleet, 'bob', { ...notebook, name: 'lab' });
    set.readings = on_battery;
    await fleet.until(
      async () => (await fleet.show('bob', lab.id)).held_back !== undefined,
      'the guest stands still',
    );
    const held = await fleet.show('bob', lab.id);
    assert.equal(held.state, 'running');
    assert.match(held.held_back ?? '', /stands still for now.*rack runs on its battery/);
    assert.equal((await fleet.show('ada', own.id)).held_back, undefined);
    assert.deepEqual((await seen(fleet, 'bob')).guard, {
      ...{ level: 3, why: ['on_battery'], own_why: [] },
    });

    const late = await fleet.launch('bob', { ...endpoint, name: 'late' });
    await fleet.untilState('bob', late.id, 'queued');
    assert.equal((await fleet.show('bob', late.id)).reason?.code, 'machine_guarded');
    await running(fleet, 'ada', { ...endpoint, name: 'more' });

    set.readings = {};
    await fleet.untilState('bob', late.id, 'running');
    await fleet.until(
      async () => (await fleet.show('bob', lab.id)).held_back === undefined,
      'the guest goes on',
    );
    const notes = await notesOf(fleet, 'bob', lab.id);
    assert.deepEqual(
      notes.filter((code) => code.startsWith('run_')),
      ['run_paused', 'run_resumed'],
    );
    assert.equal((await fleet.show('bob', lab.id)).restarts, 0);
  }));

test('the button has guests parked as preempted after their grace, and back after it', () =>
  guarded(async (fleet, set) => {
    const own = await running(fleet, 'ada', { ...endpoint, name: 'own' });
    const lab = await running(fleet, 'bob', { ...notebook, name: 'lab' });
    set.readings = { button: { level: 4, everyone: false } };
    await fleet.until(
      async () => (await fleet.show('bob', lab.id)).reclaim !== null,
      'the guest is told',
    );
    const parked = await fleet.untilState('bob', lab.id, 'stopped');
    assert.deepEqual(
      [parked.park_cause, parked.intent, parked.restarts],
      ['preempted', 'running', 0],
    );
    assert.equal((await fleet.show('ada', own.id)).state, 'running', 'the owner stays');
    const waiting = await fleet.launch('ada', { ...endpoint, name: 'waiting' });
    await fleet.untilState('ada', waiting.id, 'queued');
    assert.equal((await fleet.show('ada', waiting.id)).reason?.code, 'machine_low');
    set.readings = {};
    await fleet.untilState('ada', waiting.id, 'running');
    await fleet.untilState('bob', lab.id, 'running');
  }));

test('where the link is cut the agent parks a guest itself, and it comes back without blame', () =>
  guarded(async (fleet, set) => {
    const lab = await running(fleet, 'bob', { ...notebook, name: 'lab' });
    fleet.machine('rack').cut();
    set.readings = { button: { level: 5, everyone: false } };
    const driver = fleet.machine('rack').driver;
    await fleet.until(
      async () => (await driver.observe()).every(({ state }) => state === 'exited'),
      'nothing of it runs',
    );
    fleet.machine('rack').heal();
    await fleet.until(
      async () => (await notesOf(fleet, 'bob', lab.id)).includes('owner_paused'),
      'it is told why',
    );
    await fleet.advance(minute_ms);
    set.readings = {};
    const back = await fleet.untilState('bob', lab.id, 'running');
    assert.equal(back.restarts, 0);
  }));
