/**
 * What people do about machines over HTTP: who may, what others see of it, what it stops.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settle } from '../../../test/lib/fake-clock.ts';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  gib,
  inventoryOf,
  type Rig,
  select,
} from '../../../test/lib/rig.ts';
import type { Inventory } from '../../contract/machines.ts';
import type { Role } from '../../core/roles.ts';

const strong: Inventory = {
  ...inventoryOf({ cpu_millis: 4000, memory_bytes: 16 * gib }),
  drivers: [{ driver: 'libvirt', ready: true, why: null, kinds: ['vm'], findings: [] }],
};
const over = AbortSignal.abort();

/** A rig whose machine is heard of and runs virtual machines; bob is a neighbour. */
async function given(body: (rig: Rig, bob: string) => Promise<void>): Promise<void> {
  const rig = await createRig();
  try {
    const machine_id = rig.ids.machine_id;
    const words = { boot_id: 'b', hello_id: 'h', known: null, inventory: strong };
    await rig.sync.hello(machine_id, words);
    await addTenant(rig.store, 'bobs', 'bobs');
    await body(rig, await somebody(rig, 'bobs', 'tenant-admin'));
  } finally {
    await rig.close();
  }
}

async function somebody(rig: Rig, tenant_id: string, role: Role): Promise<string> {
  const name = `${tenant_id}-${role}`;
  return (await addUser(rig.store, rig.random, { tenant_id, name, role })).token;
}

const share = (rig: Rig, body: object, token = rig.token) =>
  ask(rig, 'PUT', '/v1/machines/desk/sharing', { body, token });
const machinesOf = async (rig: Rig, token: string) =>
  (await ask(rig, 'GET', '/v1/machines', { token })).body.items ?? [];

async function launched(rig: Rig, token: string): Promise<string> {
  const { body } = await ask(rig, 'POST', '/v1/workloads', { token, body: { kind: 'vm' } });
  await settle();
  return String(body.id);
}

const shown = async (rig: Rig, id: string, token: string) =>
  (await ask(rig, 'GET', `/v1/workloads/${id}`, { token })).body;

test('a guest sees the machine and runs there, until the invitation is taken back', () =>
  given(async (rig, bob) => {
    rig.startController();
    assert.deepEqual(await machinesOf(rig, bob), []);
    const invited = await share(rig, { invite: ['bobs'] });
    assert.equal(invited.status, 200, invited.text);
    const own = (invited.body.machine ?? {}) as Record<string, unknown>;
    assert.deepEqual([own.sharing, own.invited, own.is_yours], ['invite-only', ['bobs'], true]);
    const [seen] = await machinesOf(rig, bob);
    assert.deepEqual([seen?.name, seen?.is_yours, seen?.invited], ['desk', false, null]);
    for (const [method, path] of [
      ['POST', 'drain'],
      ['POST', 'undrain'],
      ['DELETE', ''],
    ] as const) {
      const body = path === 'drain' ? { body: {} } : {};
      const url = `/v1/machines/desk${path === '' ? '' : `/${path}`}`;
      const told = await ask(rig, method, url, { token: bob, ...body });
      assert.equal(told.status, 404, 'a guest is no owner');
    }
    const id = await launched(rig, bob);
    assert.equal((await shown(rig, id, bob)).state, 'provisioning');
    const back = await share(rig, { uninvite: ['bobs'] });
    assert.equal(back.body.stopped, 1);
    const parked = await shown(rig, id, bob);
    assert.deepEqual([parked.state, parked.park_cause], ['stopping', 'trust']);
    await ask(rig, 'PUT', '/v1/machines/desk/name', { body: { name: 'vault' } });
    assert.equal(JSON.stringify(await shown(rig, id, bob)).includes('vault'), false);
    assert.deepEqual(await machinesOf(rig, bob), []);
    const plan = await ask(rig, 'POST', '/v1/plan', { token: bob, body: { kind: 'vm' } });
    assert.equal(plan.text.includes('desk'), false);
    assert.match(plan.text, /no_machine_shared/);
  }));

test('what a machine should run hears of its guests, and of none any more', () =>
  given(async (rig, bob) => {
    rig.startController();
    await share(rig, { invite: ['bobs'] });
    await launched(rig, bob);
    const { outcome: _, ...identity } = await rig.sync.hello(rig.ids.machine_id, {
      ...{ boot_id: 'b', hello_id: 'h', known: null, inventory: strong },
    });
    const report = { boot_id: 'b', have_generation: -1, inventory: null, observed: [] };
    const actions = async (seq: number) => {
      const words = { ...report, ...identity, seq } as never;
      const reply = await rig.sync.sync(rig.ids.machine_id, words, over);
      return reply.outcome === 'accepted' ? reply.desired?.map((run) => run.action) : reply.outcome;
    };
    assert.deepEqual(await actions(1), ['run']);
    await share(rig, { sharing: 'private' });
    assert.deepEqual(await actions(2), ['park']);
  }));

test('only admins of the owner share it; an operator of others only takes back', () =>
  given(async (rig, bob) => {
    const member = await somebody(rig, rig.ids.tenant_id, 'member');
    const operator = await somebody(rig, 'bobs', 'operator');
    assert.equal((await share(rig, { sharing: 'community' }, member)).status, 403);
    assert.equal((await share(rig, { sharing: 'community' }, bob)).status, 404);
    assert.equal((await share(rig, { sharing: 'community' }, operator)).status, 404);
    await share(rig, { sharing: 'invite-only' });
    const raised = await share(rig, { sharing: 'community' }, operator);
    assert.equal(raised.body.error?.code, 'sharing_not_yours');
    const lowered = await share(rig, { sharing: 'private' }, operator);
    assert.deepEqual([lowered.status, lowered.body.machine], [200, null]);
    const rows = await select<{ details: string; tenant_id: string }>(
      rig.store,
      "select tenant_id, details from activity where route = 'shareMachine' order by id",
    );
    assert.deepEqual(
      rows.map((row) => [row.tenant_id === 'bobs', JSON.parse(row.details).sharing]),
      [
        [false, 'invite-only'],
        [true, 'private'],
      ],
    );
  }));

test('an unknown tenant is told, and nothing is asked by a body without a word', () =>
  given(async (rig) => {
    const none = await share(rig, { invite: ['nobody'] });
    assert.equal(none.status, 404);
    assert.match(none.text, /There is no tenant nobody/);
    const wrong = await share(rig, { invites: ['bobs'] });
    assert.equal(wrong.body.error?.code, 'bad_request');
  }));

test('a machine that is given away is private and drained there', () =>
  given(async (rig, bob) => {
    await share(rig, { sharing: 'community' });
    const given = await ask(rig, 'POST', '/v1/machines/desk/give', { body: { to: 'bobs' } });
    assert.deepEqual([given.status, given.body.machine], [200, null]);
    assert.deepEqual(await machinesOf(rig, rig.token), []);
    const [theirs] = await machinesOf(rig, bob);
    assert.deepEqual([theirs?.sharing, theirs?.is_yours], ['private', true]);
    assert.notEqual(theirs?.drained_at, null);
    rig.startController();
    const id = await launched(rig, bob);
    const waiting = await shown(rig, id, bob);
    assert.equal(waiting.state, 'queued');
    assert.match(JSON.stringify(waiting.reason), /machine_draining/);
    const ready = await ask(rig, 'POST', '/v1/machines/desk/undrain', { token: bob });
    assert.equal(ready.status, 200, ready.text);
    await settle();
    assert.equal((await shown(rig, id, bob)).state, 'provisioning');
  }));

test('a name that another machine of the tenant has, or that is an id, is refused', () =>
  given(async (rig) => {
    const rename = (name: string) => ask(rig, 'PUT', '/v1/machines/desk/name', { body: { name } });
    const other = { id: 'm2', tenant_id: rig.ids.tenant_id, name: 'two', region: 'local', now: 0 };
    await rig.store.transact('addMachine', other);
    assert.equal((await rename('two')).body.error?.code, 'machine_name_taken');
    for (const name of [rig.ids.machine_id, '-x', 'a b', '', 'x'.repeat(64), '../x']) {
      assert.equal((await rename(name)).status, 400, name);
    }
    const named = (await rename('Bench.1')).body.machine as { name: string };
    assert.equal(named.name, 'Bench.1');
    const old = await ask(rig, 'POST', '/v1/machines/desk/drain', { body: {} });
    assert.equal(old.status, 404);
  }));

test("an owner's limit holds over what the agent says, and shows", () =>
  given(async (rig) => {
    const limit = (body: object) => ask(rig, 'PUT', '/v1/machines/desk/limits', { body });
    const set = (await limit({ cpu_millis: 1000 })).body.machine as Record<string, unknown>;
    const caps = { cpu_millis: 1000, memory_bytes: null, disk_bytes: null };
    assert.deepEqual(set.caps, caps);
    await rig.sync.hello(rig.ids.machine_id, {
      ...{ boot_id: 'b', hello_id: 'again', known: null },
      inventory: { ...strong, offered: { cpu_millis: 64_000, memory_bytes: 1, disk_bytes: 1 } },
    });
    const [machine] = await machinesOf(rig, rig.token);
    const offered = machine?.offered as { cpu_millis: number } | undefined;
    assert.equal(offered?.cpu_millis, 1000);
    assert.equal((await limit({ cpu_millis: -1 })).status, 400);
    assert.equal((await limit({ cpus: 1 })).status, 400);
  }));

test('nobody says that a machine is off while it may speak', () =>
  given(async (rig) => {
    const fence = (confirm: string, powered_off: unknown = true) =>
      ask(rig, 'POST', '/v1/machines/desk/fence', { body: { powered_off, confirm } });
    assert.equal((await fence('desk')).body.error?.code, 'machine_still_heard');
    await rig.clock.advance(61_000);
    assert.equal((await fence('dsek')).body.error?.code, 'bad_request');
    assert.equal((await fence('desk', false)).body.error?.code, 'bad_request');
    const done = await fence('desk');
    assert.deepEqual([done.status, done.body.stopped], [200, 0]);
  }));

test('what runs on a machine that is off is over, by the word of a person on its timeline', () =>
  given(async (rig, bob) => {
    rig.startController();
    await share(rig, { invite: ['bobs'] });
    const id = await launched(rig, bob);
    const refused = await ask(rig, 'DELETE', '/v1/machines/desk');
    assert.equal(refused.body.error?.code, 'machine_has_runs');
    assert.match(refused.body.error?.message ?? '', /may still run 1 of others\./);
    await rig.clock.advance(61_000);
    const body = { powered_off: true, confirm: 'desk' };
    const fenced = await ask(rig, 'POST', '/v1/machines/desk/fence', { body });
    assert.equal(fenced.body.stopped, 1);
    const events = await ask(rig, 'GET', `/v1/workloads/${id}/events`, { token: bob });
    assert.match(events.text, /machine_fenced/);
    const kept = await ask(rig, 'DELETE', '/v1/machines/desk');
    assert.equal(kept.body.error?.code, 'machine_in_use');
    const removed = await ask(rig, 'DELETE', '/v1/machines/desk?forget_homes=true');
    assert.deepEqual([removed.status, removed.body.forgotten], [200, 1]);
    const lost = await shown(rig, id, bob);
    assert.deepEqual([lost.state, (lost.reason as { code: string }).code], ['failed', 'home_lost']);
    assert.deepEqual(await machinesOf(rig, rig.token), []);
    const told = await rig.sync.hello(rig.ids.machine_id, {
      ...{ boot_id: 'c', hello_id: 'new', known: null, inventory: strong },
    });
    assert.deepEqual(told, { outcome: 'unknown_machine' });
  }));

test('the agent of a machine that was removed is heard no more, from its next word on', () =>
  given(async (rig) => {
    const machine_id = rig.ids.machine_id;
    const words = { boot_id: 'b', hello_id: 'h', known: null, inventory: strong };
    const { outcome: _, ...identity } = await rig.sync.hello(machine_id, words);
    const report = { boot_id: 'b', have_generation: -1, inventory: null, observed: [] };
    const say = (seq: number) =>
      rig.sync.sync(machine_id, { ...report, ...identity, seq } as never, over);
    assert.equal((await say(1)).outcome, 'accepted');
    assert.equal((await ask(rig, 'DELETE', '/v1/machines/desk')).status, 200);
    rig.sync.wake();
    assert.equal((await say(2)).outcome, 'hello_again');
    const again = { id: machine_id, tenant_id: rig.ids.tenant_id, region: 'local', now: 1 };
    await rig.store.transact('addMachine', { ...again, name: 'desk' });
    rig.sync.wake();
    assert.equal((await say(3)).outcome, 'hello_again');
    const greeted = await rig.sync.hello(machine_id, {
      ...{ ...words, hello_id: 'new' },
      known: identity as never,
    });
    assert.equal(greeted.outcome, 'greeted', JSON.stringify(greeted));
  }));
