/**
 * An owner takes a machine back, end to end: two tenants over the API, made-up machines with real
 * agents, one clock.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GuardReport } from '../src/contract/guard.ts';
import type { Machine } from '../src/contract/machines.ts';
import type { Plan } from '../src/contract/workloads.ts';
import { createFleet, type Fleet } from './lib/fleet.ts';
import { select } from './lib/rig.ts';

const minute_ms = 60_000;
const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
const notebook = { kind: 'notebook', gpu_class: 'cpu-1c-2g', disk_bytes: 2 ** 30, name: 'lab' };
const rack = { name: 'rack', owner: 'ada', as: 'libvirt', sharing: 'community' } as const;
const free: GuardReport = { level: 0, why: [], own_why: [], grace_ms: 0, until_ms: null };

async function inFleet(
  machines: Parameters<typeof createFleet>[0],
  body: (fleet: Fleet) => Promise<void>,
): Promise<void> {
  const fleet = await createFleet(machines);
  fleet.rig.startReclaims();
  try {
    await body(fleet);
  } finally {
    await fleet.close();
  }
}

const running = async (fleet: Fleet, slug: string, body: Record<string, unknown>) =>
  fleet.untilState(slug, (await fleet.launch(slug, body)).id, 'running');

async function say(fleet: Fleet, slug: string, what: string, body?: unknown): Promise<Machine> {
  const answer = await fleet.ask(slug, 'POST', `/v1/machines/rack/${what}`, body);
  assert.equal(answer.status, 200, answer.text);
  return answer.body as unknown as Machine;
}
const reclaim = (fleet: Fleet, body: object = {}) => say(fleet, 'ada', 'reclaim', body);
const release = (fleet: Fleet) => say(fleet, 'ada', 'release');

async function seen(fleet: Fleet, slug: string, name: string): Promise<Machine> {
  const { body } = await fleet.ask(slug, 'GET', '/v1/machines');
  const found = (body.items as unknown as Machine[]).find((one) => one.name === name);
  return found ?? assert.fail(`${slug} sees no ${name}`);
}

async function notesOf(fleet: Fleet, slug: string, id: string): Promise<string[]> {
  const { body } = await fleet.ask(slug, 'GET', `/v1/workloads/${id}/events`);
  return (body.items as { message: string }[]).map(({ message }) => message);
}

test('guests are told, given grace, and stopped; and in the end all comes back', () =>
  inFleet([rack], async (fleet) => {
    const own = await running(fleet, 'ada', { ...endpoint, name: 'own' });
    const lab = await running(fleet, 'bob', notebook);
    const chat = await running(fleet, 'bob', { ...endpoint, name: 'chat' });
    const asked = await reclaim(fleet);
    assert.deepEqual([asked.reclaim?.phase, asked.reclaim?.by], ['grace', 'of-ada']);
    const told = (await fleet.show('bob', lab.id)).reclaim;
    assert.deepEqual([told?.phase, told?.stops_in_ms], ['grace', 5 * minute_ms]);
    assert.equal((await fleet.show('ada', own.id)).reclaim, null, 'the owner stays');
    assert.equal((await seen(fleet, 'bob', 'rack')).reclaim?.by, null, 'nobody is named to guests');
    const notes = await notesOf(fleet, 'bob', lab.id);
    assert.match(notes.at(-1) ?? '', /owner of rack takes it back: this stops in 5m 0s/);

    const { body } = await fleet.ask('bob', 'POST', '/v1/plan', endpoint);
    const plan = body as unknown as Plan;
    assert.equal(plan.chosen, null);
    assert.equal(plan.machines_not_chosen[0]?.code, 'machine_reclaimed');
    const late = await fleet.launch('bob', { ...endpoint, name: 'late' });
    await fleet.untilState('bob', late.id, 'queued');
    assert.equal((await fleet.show('bob', late.id)).reason?.code, 'machine_reclaimed');

    await fleet.advance(4 * minute_ms);
    assert.equal((await fleet.show('bob', lab.id)).state, 'running');
    const parked = await fleet.untilState('bob', lab.id, 'stopped');
    assert.deepEqual(
      [parked.intent, parked.park_cause, parked.reason?.code, parked.restarts],
      ['running', 'preempted', 'preempted_waits', 0],
    );
    await fleet.untilState('bob', chat.id, 'queued');
    assert.equal((await fleet.show('ada', own.id)).state, 'running');
    assert.equal((await seen(fleet, 'ada', 'rack')).reclaim?.phase, 'held');

    await release(fleet);
    const back = await fleet.untilState('bob', lab.id, 'running');
    assert.deepEqual(
      [back.placement?.run_epoch, back.created_at, back.park_cause],
      [2, lab.created_at, 'none'],
    );
    await fleet.untilState('bob', chat.id, 'running');
    await fleet.untilState('bob', late.id, 'running');
    assert.equal((await seen(fleet, 'bob', 'rack')).reclaim, null);
    await checkMetered(fleet, lab.id);
  }));

/** What it was metered before and after, and nothing in between. */
async function checkMetered(fleet: Fleet, workload_id: string): Promise<void> {
  const rows = await select<{ run_epoch: number; ended_at: number | null }>(
    fleet.rig.store,
    "select * from ledger where workload_id = $1 and kind = 'metered' order by run_epoch",
    [workload_id],
  );
  assert.deepEqual(
    rows.map((row) => [row.run_epoch, row.ended_at !== null]),
    [
      [1, true],
      [2, false],
    ],
  );
}

test('an endpoint goes on on another machine at once', () =>
  inFleet([rack, { ...rack, name: 'spare', owner: 'cyd', as: 'macos-vz' }], async (fleet) => {
    const chat = await running(fleet, 'bob', { ...endpoint, name: 'chat' });
    const first = chat.placement?.machine_name ?? '';
    const owner = first === 'rack' ? 'ada' : 'cyd';
    const path = `/v1/machines/${first}/reclaim`;
    const answer = await fleet.ask(owner, 'POST', path, { grace_ms: 0 });
    assert.equal(answer.status, 200, answer.text);
    await fleet.until(async () => {
      const { state, placement } = await fleet.show('bob', chat.id);
      return state === 'running' && placement?.machine_name !== first;
    }, 'the other machine');
  }));

test('of an endpoint with replicas only those there go; it answers all the time', () =>
  inFleet([rack, { ...rack, name: 'spare', owner: 'cyd', as: 'macos-vz' }], async (fleet) => {
    const chat = await running(fleet, 'bob', { ...endpoint, name: 'chat', replicas: 2 });
    const runs = () =>
      select<{ name: string; ended_at: number | null; ready_at: number | null }>(
        fleet.rig.store,
        `select m.name, r.ended_at, r.ready_at from runs r join machines m on m.id = r.machine_id
         where r.workload_id = $1 and r.superseded_at is null order by r.replica`,
        [chat.id],
      );
    const ready = async () =>
      (await runs()).filter((run) => run.ready_at !== null && run.ended_at === null);
    await fleet.until(async () => (await ready()).length === 2, 'both');
    assert.deepEqual((await ready()).map(({ name }) => name).sort(), ['rack', 'spare']);
    await reclaim(fleet, { grace_ms: 0 });
    await fleet.until(async () => {
      assert.equal((await fleet.show('bob', chat.id)).state, 'running');
      return (await ready()).filter(({ name }) => name === 'spare').length === 2;
    }, 'both elsewhere');
    const notes = await notesOf(fleet, 'bob', chat.id);
    assert.ok(notes.some((note) => /Replica \d goes elsewhere: the owner of rack/.test(note)));
    assert.equal((await fleet.show('bob', chat.id)).restarts, 0);
  }));

test('a machine that is cut off meanwhile is done with when it is back', () =>
  inFleet([rack], async (fleet) => {
    const lab = await running(fleet, 'bob', notebook);
    fleet.machine('rack').cut();
    await fleet.until(async () => !(await fleet.show('bob', lab.id)).heard_of, 'silence');
    await reclaim(fleet, { grace_ms: 0 });
    await fleet.advance(30 * minute_ms);
    const waits = await fleet.show('bob', lab.id);
    assert.deepEqual([waits.state, waits.heard_of], ['stopping', false]);
    fleet.machine('rack').heal();
    await fleet.untilState('bob', lab.id, 'stopped');
    await release(fleet);
    await fleet.untilState('bob', lab.id, 'running');
  }));

test('a machine that is drained, too, is waited for until it takes something again', () =>
  inFleet([rack], async (fleet) => {
    const lab = await running(fleet, 'bob', notebook);
    await fleet.person('ada', 'tenant-admin');
    await say(fleet, 'ada', 'drain', {});
    await reclaim(fleet, { grace_ms: 0 });
    await fleet.untilState('bob', lab.id, 'stopped');
    await release(fleet);
    await fleet.untilState('bob', lab.id, 'queued');
    assert.equal((await fleet.show('bob', lab.id)).reason?.code, 'machine_draining');
    await say(fleet, 'ada', 'undrain');
    await fleet.untilState('bob', lab.id, 'running');
  }));

test('a machine that is fenced while it is taken back owes nothing more', () =>
  inFleet([rack], async (fleet) => {
    const lab = await running(fleet, 'bob', notebook);
    await fleet.person('ada', 'tenant-admin');
    await fleet.machine('rack').stopAgent();
    await reclaim(fleet, { grace_ms: 0 });
    await fleet.until(async () => !(await fleet.show('bob', lab.id)).heard_of, 'silence');
    assert.equal((await fleet.show('bob', lab.id)).state, 'stopping');
    await say(fleet, 'ada', 'fence', { powered_off: true, confirm: 'rack' });
    const ended = await fleet.show('bob', lab.id);
    assert.deepEqual([ended.state, ended.reason?.code], ['stopped', 'preempted_waits']);
    fleet.machine('rack').startAgent();
    await release(fleet);
    await fleet.untilState('bob', lab.id, 'running');
  }));

test('a run that will not stop holds its machine; released, it goes on after that', () =>
  inFleet([{ ...rack, plans: [{ refused_stops: 3 }] }], async (fleet) => {
    const lab = await running(fleet, 'bob', notebook);
    await reclaim(fleet, { grace_ms: 0 });
    await release(fleet);
    assert.equal((await fleet.show('bob', lab.id)).state, 'stopping');
    const back = await fleet.untilState('bob', lab.id, 'running');
    assert.equal(back.placement?.run_epoch, 2);
  }));

test('what was asked survives a control plane that ends and begins again in any phase', async () => {
  const fleet = await createFleet([rack]);
  try {
    const lab = await running(fleet, 'bob', notebook);
    await reclaim(fleet, { in_ms: 10 * minute_ms, grace_ms: minute_ms });
    assert.equal((await fleet.show('bob', lab.id)).reclaim?.phase, 'planned');
    // Nobody lets time have its effect while it is away.
    await fleet.advance(60 * minute_ms);
    assert.equal((await fleet.show('bob', lab.id)).state, 'running');
    fleet.rig.startReclaims();
    await fleet.until(
      async () => (await fleet.show('bob', lab.id)).reclaim?.phase === 'grace',
      'grace, although the moment is long over',
    );
    await fleet.untilState('bob', lab.id, 'stopped');
  } finally {
    await fleet.close();
  }
});

test('a guard that parks, and one that only says that its owner is there', () =>
  inFleet([rack], async (fleet) => {
    const lab = await running(fleet, 'bob', notebook);
    const { id } = await seen(fleet, 'ada', 'rack');
    const guarded = async (said: Partial<GuardReport>) => {
      const report = { ...free, ...said };
      fleet.rig.presence.setGuard(id, report);
      await fleet.rig.startReclaims().guarded(id, report);
    };
    await guarded({ level: 4, why: ['on_battery'], grace_ms: 30_000 });
    await fleet.untilState('bob', lab.id, 'stopped');
    const notes = await notesOf(fleet, 'bob', lab.id);
    assert.ok(notes.some((note) => /took it back \(it runs on its battery\)/.test(note)));
    const refused = await fleet.ask('ada', 'POST', '/v1/machines/rack/release');
    assert.equal(refused.body.error?.code, 'reclaimed_by_guard');
    await guarded({});
    await fleet.untilState('bob', lab.id, 'running');

    await guarded({ level: 1, why: ['owner_active'] });
    assert.equal((await fleet.show('bob', lab.id)).state, 'running');
    await reclaim(fleet, { when_active: true, grace_ms: minute_ms });
    await fleet.untilState('bob', lab.id, 'stopped');
    await guarded({});
    await fleet.untilState('bob', lab.id, 'running');
    assert.equal((await seen(fleet, 'ada', 'rack')).reclaim?.phase, 'armed');
  }));

test('only the people of its owner take a machine back, and not its viewers', () =>
  inFleet([rack], async (fleet) => {
    const there = await fleet.ask('bob', 'POST', '/v1/machines/rack/reclaim', {});
    const nowhere = await fleet.ask('bob', 'POST', '/v1/machines/none/reclaim', {});
    assert.deepEqual([there.status, nowhere.status], [404, 404]);
    assert.equal((await fleet.ask('bob', 'POST', '/v1/machines/rack/release')).status, 404);
    assert.equal((await seen(fleet, 'bob', 'rack')).reclaim, null);
    const none = await fleet.ask('ada', 'POST', '/v1/machines/rack/release');
    assert.equal(none.body.error?.code, 'not_reclaimed');
  }));

test('a request that contradicts itself is refused, and changes nothing', () =>
  inFleet([rack], async (fleet) => {
    const now = fleet.rig.clock.now();
    for (const body of [
      { at: now - 1 },
      { at: now + 1000, in_ms: 1000 },
      { when_active: true, in_ms: 1000 },
      { until: now },
      { at: now + 5000, until: now + 5000 },
      { grace_ms: -1 },
      { scope: 'some' },
      { soon: true },
    ]) {
      const answer = await fleet.ask('ada', 'POST', '/v1/machines/rack/reclaim', body);
      assert.deepEqual([answer.status, answer.body.error?.code], [400, 'bad_request'], answer.text);
    }
    assert.equal((await seen(fleet, 'ada', 'rack')).reclaim, null);
  }));
