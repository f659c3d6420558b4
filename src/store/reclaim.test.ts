/**
 * Machines that their owners take back, on every store: who is told, who is stopped, and how it
 * goes on.
 */
import assert from 'node:assert/strict';
import { addTenant, addUser, endpointSpec, gib, select } from '../../test/lib/rig.ts';
import {
  eventsOf,
  reportRun,
  runsOf,
  type Story,
  workloadsOf,
} from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { makeId } from '../core/ids.ts';
import type { Reclaim, ReclaimGuard } from '../core/reclaim.ts';
import type { WorkloadSpec } from '../core/workload.ts';
import type { EventRow, WorkloadRow } from './events.ts';
import { listPreempted } from './preempt.ts';
import { listReclaims, type ReclaimArgs } from './reclaim.ts';
import type { RunRow } from './runs.ts';

const minute_ms = 60_000;
const small: Partial<WorkloadSpec> = { cpu_millis: 250, memory_bytes: gib / 4 };
const guest = 'guest-tenant-00000000000000';
const notebook: Partial<WorkloadSpec> = {
  kind: 'notebook',
  name: 'lab',
  model: null,
  disk_bytes: gib,
};

onEveryStore('reclaim', (inStory) => {
  /** A community machine with an endpoint of its owner, and a notebook and an endpoint of a guest. */
  const given = (name: string, body: (story: Story) => Promise<void>) =>
    inStory(name, async (story) => {
      await lend(story);
      await body(story);
    });

  given('guests are told, given grace, stopped by proof, and go on in the end', async (story) => {
    await reclaim(story);
    const told = await lastOf(story, 'lab');
    assert.equal(told.code, 'reclaim_soon');
    assert.deepEqual(JSON.parse(told.details), {
      ...{ machine: 'desk', left: '5m 0s', why: 'its owner asks for it' },
    });
    assert.notEqual((await lastOf(story, 'own')).code, 'reclaim_soon');
    await advance(story, 5 * minute_ms - 1);
    assert.equal((await named(story, 'lab')).state, 'running');
    await advance(story, 1);
    const [lab, served] = [await named(story, 'lab'), await named(story, 'served')];
    for (const row of [lab, served]) {
      assert.deepEqual(
        [row.state, row.intent, row.park_cause],
        ['stopping', 'running', 'preempted'],
      );
      assert.equal((await runOf(story, row)).wanted, 'park');
    }
    assert.equal((await named(story, 'own')).state, 'running');
    await proveEnds(story);
    const waits = await named(story, 'lab');
    assert.deepEqual([waits.state, waits.code, waits.attempts], ['stopped', 'preempted_waits', 0]);
    const elsewhere = await named(story, 'served');
    assert.deepEqual([elsewhere.state, elsewhere.park_cause], ['pending', 'none']);
    assert.equal(elsewhere.created_at, served.created_at, 'it keeps its age');
    await release(story);
    const back = await named(story, 'lab');
    assert.deepEqual(
      [back.state, back.park_cause, back.code],
      ['pending', 'none', 'preempted_goes_on'],
    );
    assert.equal(back.created_at, lab.created_at, 'it keeps its age');
    assert.equal(await reclaimText(story), '');
  });

  given(
    'nothing new of guests is placed from the grace on, and the owner goes on',
    async (story) => {
      await launch(story, guest, { name: 'late' });
      await launch(story, story.ids.tenant_id, { name: 'mine' });
      await reclaim(story);
      assert.equal(await place(story, await named(story, 'late')), 'not_allowed');
      assert.equal(await place(story, await named(story, 'mine')), 'placed');
      await reclaim(story, { scope: 'all' });
      await launch(story, story.ids.tenant_id, { name: 'later' });
      assert.equal(await place(story, await named(story, 'later')), 'not_allowed');
      await release(story);
      assert.equal(await place(story, await named(story, 'late')), 'placed');
    },
  );

  given('planned for later, guests hear of it at once and may come until then', async (story) => {
    await reclaim(story, { start: { when: 'in', in_ms: 60 * minute_ms } });
    assert.equal((await lastOf(story, 'lab')).code, 'reclaim_planned');
    await launch(story, guest, { name: 'late' });
    assert.equal(await place(story, await named(story, 'late')), 'placed');
    story.clock.stepWall(-400 * 24 * 60 * minute_ms);
    await advance(story, 60 * minute_ms);
    assert.equal((await lastOf(story, 'late')).code, 'reclaim_soon');
    await release(story);
    assert.equal((await lastOf(story, 'late')).code, 'reclaim_called_off');
    assert.equal((await named(story, 'lab')).state, 'running');
  });

  given('taken back at once, all of it with --all, nobody is forgotten', async (story) => {
    await reclaim(story, { grace_ms: 0, scope: 'all' });
    for (const row of await workloadsOf(story.store)) assert.equal(row.state, 'stopping', row.name);
    await proveEnds(story);
    await release(story);
    for (const row of await workloadsOf(story.store)) assert.equal(row.state, 'pending', row.name);
  });

  given('released while they are being stopped, they start again after that', async (story) => {
    await reclaim(story, { grace_ms: 0 });
    await release(story);
    const row = await named(story, 'lab');
    assert.deepEqual([row.state, row.park_cause], ['stopping', 'none']);
    await proveEnds(story);
    assert.equal((await named(story, 'lab')).state, 'pending');
  });

  given('what a person says in between counts: a stop, a start, a deletion', async (story) => {
    await launch(story, guest, { ...notebook, name: 'gone' });
    await run(story, 'gone');
    await launch(story, guest, { ...notebook, name: 'eager' });
    await run(story, 'eager');
    await reclaim(story, { grace_ms: 0 });
    await proveEnds(story);
    await change(story, 'stopWorkload', 'lab');
    await change(story, 'deleteWorkload', 'gone');
    await change(story, 'startWorkload', 'eager');
    const started = await named(story, 'eager');
    assert.deepEqual([started.state, started.park_cause], ['pending', 'none']);
    assert.equal(await place(story, started), 'not_allowed', 'its home is still taken back');
    await release(story);
    const stopped = await named(story, 'lab');
    assert.deepEqual(
      [stopped.state, stopped.intent, stopped.park_cause, stopped.code],
      ['stopped', 'stopped', 'user', 'asked_by_user'],
    );
    assert.equal((await named(story, 'gone')).state, 'deleting');
    assert.equal(await wake(story, stopped), 'not_idle');
  });

  given('what is preempted is woken by no request', async (story) => {
    await reclaim(story, { grace_ms: 0 });
    assert.equal(await wake(story, await named(story, 'lab')), 'not_idle');
    await proveEnds(story);
    assert.equal(await wake(story, await named(story, 'lab')), 'not_idle');
  });

  given('who lost the trust meanwhile stays parked, for that', async (story) => {
    await reclaim(story, { grace_ms: 0 });
    await proveEnds(story);
    await write(story, "update machines set sharing = 'private'");
    await release(story);
    const row = await named(story, 'lab');
    assert.deepEqual([row.state, row.park_cause, row.code], ['stopped', 'trust', 'trust_lost']);
    assert.deepEqual(await story.store.read(listPreempted, { after: '', limit: 9 }), []);
  });

  given('over its quota it waits, says so once, and goes on when there is room', async (story) => {
    await reclaim(story, { grace_ms: 0 });
    await proveEnds(story);
    await limit(story, 1);
    await release(story);
    const over = await named(story, 'lab');
    assert.deepEqual([over.state, over.park_cause], ['stopped', 'preempted']);
    assert.equal(over.code, 'quota_exceeded');
    const [found] = await story.store.read(listPreempted, { after: '', limit: 9 });
    assert.equal(found?.id, over.id);
    assert.equal(await resume(story, over), 'quota_exceeded');
    assert.equal((await named(story, 'lab')).event_number, over.event_number);
    await limit(story, null);
    assert.equal(await resume(story, over), 'resumed');
    assert.equal(await resume(story, over), 'not_preempted');
  });

  given('a second word, another tenant and a repeat change only what they may', async (story) => {
    assert.deepEqual(await reclaim(story, { tenant_id: guest }), { ok: false, code: 'not_found' });
    assert.deepEqual(await release(story, guest), { ok: false, code: 'not_found' });
    const none = await release(story);
    assert.equal(none.ok === false && none.code, 'not_reclaimed');
    await reclaim(story, { grace_ms: 30 * minute_ms });
    const later = await reclaim(story, { start: { when: 'active' } });
    assert.equal(later.ok === false && later.code, 'reclaim_in_effect');
    await reclaim(story, { grace_ms: 0 });
    assert.equal((await named(story, 'lab')).state, 'stopping');
    const { event_number } = await named(story, 'lab');
    await reclaim(story);
    await advance(story, minute_ms);
    assert.equal((await named(story, 'lab')).event_number, event_number);
  });

  given('its guard parks guests with its reason, once, and lets them go on', async (story) => {
    const parks = { parks: true, why: 'on_battery', grace_ms: minute_ms } as const;
    assert.ok((await hear(story, parks)) > 0);
    assert.equal(await hear(story, parks), 0);
    assert.match((await lastOf(story, 'lab')).details, /runs on its battery/);
    await advance(story, minute_ms);
    const stop = await lastOf(story, 'lab');
    assert.deepEqual([stop.code, JSON.parse(stop.details).why_code], ['preempted', 'on_battery']);
    await proveEnds(story);
    const refused = await release(story);
    assert.equal(refused.ok === false && refused.code, 'reclaimed_by_guard');
    await hear(story, null);
    assert.equal((await named(story, 'lab')).state, 'pending');
    assert.equal(await reclaimText(story), '');
  });

  given('when active, it is taken back for as long as its owner uses it', async (story) => {
    const in_use = { parks: false, why: 'owner_active', grace_ms: 0 } as const;
    await reclaim(story, { start: { when: 'active' }, guard: in_use });
    assert.equal((await lastOf(story, 'lab')).code, 'reclaim_soon');
    await hear(story, null);
    assert.equal((await lastOf(story, 'lab')).code, 'reclaim_called_off');
    await hear(story, in_use);
    await advance(story, 5 * minute_ms);
    await proveEnds(story);
    await hear(story, null);
    assert.equal((await named(story, 'lab')).state, 'pending');
    const [row] = await story.store.read(listReclaims, { after: '', limit: 9 });
    assert.equal((JSON.parse(row?.reclaim ?? '{}') as Reclaim).ask?.start.when, 'active');
  });

  given('asked and placed at once, nobody is left there in the end', async (story) => {
    await Promise.all(
      Array.from({ length: 6 }, (_, number) => launch(story, guest, { name: `n${number}` })),
    );
    const rows = (await workloadsOf(story.store)).filter(({ state }) => state === 'pending');
    const placed = rows.map((row) => place(story, row));
    await Promise.all([...placed, reclaim(story, { grace_ms: 0 })]);
    await advance(story, 0);
    const left = (await workloadsOf(story.store)).filter(
      ({ tenant_id, state }) =>
        tenant_id === guest && (state === 'provisioning' || state === 'running'),
    );
    assert.deepEqual(
      left.map(({ name }) => name),
      [],
    );
  });

  given('a machine that falls silent meanwhile is done with when it is back', async (story) => {
    await reclaim(story, { grace_ms: 0 });
    await advance(story, 24 * 60 * minute_ms);
    assert.equal((await named(story, 'lab')).state, 'stopping');
    const row = await named(story, 'lab');
    const held = "select * from ledger where workload_id = $1 and kind = 'metered'";
    const [metered] = await select(story.store, held, [row.id]);
    assert.notEqual(metered?.ended_at, null, 'it is metered no longer');
    await proveEnds(story);
    assert.equal((await named(story, 'lab')).state, 'stopped');
  });
});

const cause = ({ clock }: Story) => ({
  ...{ now: clock.now(), mono: clock.monotonic() },
  ...{ actor: 'user:ada', request_id: 'r' },
});

async function lend(story: Story): Promise<void> {
  await addTenant(story.store, 'bob', guest);
  await write(story, "update machines set sharing = 'community'");
  await launch(story, story.ids.tenant_id, { name: 'own' });
  await launch(story, guest, notebook);
  await launch(story, guest, { name: 'served' });
  for (const name of ['own', 'lab', 'served']) await run(story, name);
}

const write = (story: Story, text: string, params: string[] = []) =>
  story.store.transact('write', { text, params });

const users = new WeakMap<Story, Map<string, string>>();
async function userOf(story: Story, tenant_id: string): Promise<string> {
  if (tenant_id === story.ids.tenant_id) return story.ids.user_id;
  const known = users.get(story) ?? new Map<string, string>();
  users.set(story, known);
  const found = known.get(tenant_id);
  if (found !== undefined) return found;
  known.set(tenant_id, '');
  const user = { tenant_id, name: 'bob', role: 'member' } as const;
  const { user_id } = await addUser(story.store, story.random, user);
  known.set(tenant_id, user_id);
  return user_id;
}

async function launch(story: Story, tenant_id: string, spec: Partial<WorkloadSpec>): Promise<void> {
  const done = await story.store.transact('launchWorkload', {
    id: makeId(story.clock.now(), story.random.bytes(10)),
    ...{ tenant_id, creator_id: await userOf(story, tenant_id) },
    ...{
      spec: endpointSpec({ ...small, ...spec }),
      name_is_free: false,
      idempotency: null,
      ...cause(story),
    },
  });
  assert.ok(done.outcome === 'done' && done.result.ok, JSON.stringify(done));
}

async function place(story: Story, row: WorkloadRow): Promise<string> {
  const is_own = row.tenant_id === story.ids.tenant_id;
  const { outcome } = await story.store.transact('placeWorkload', {
    ...{ workload_id: row.id, revision: row.revision, ...cause(story) },
    placement: {
      ...{ machine_id: story.ids.machine_id, machine_name: 'desk', placed_class: 'cpu-1c-2g' },
      driver: is_own ? 'sim' : 'macos-container',
      isolation: is_own ? 'weak' : 'strong',
    },
  });
  return outcome;
}

async function run(story: Story, name: string): Promise<void> {
  assert.equal(await place(story, await named(story, name)), 'placed');
  await reportRun(story, await runOf(story, await named(story, name)), 'ready');
}

async function named({ store }: Story, name: string): Promise<WorkloadRow> {
  return (await workloadsOf(store)).find((one) => one.name === name) ?? assert.fail(name);
}

async function runOf({ store }: Story, { id, run_epoch }: WorkloadRow): Promise<RunRow> {
  const runs = (await runsOf(store)).filter((one) => one.workload_id === id);
  return runs.find((one) => one.run_epoch === run_epoch) ?? assert.fail(id);
}

async function lastOf(story: Story, name: string): Promise<EventRow> {
  const events = await eventsOf(story.store, (await named(story, name)).id);
  return events.at(-1) ?? assert.fail(name);
}

function reclaim(story: Story, more: Partial<ReclaimArgs> = {}) {
  return story.store.transact('reclaimMachine', {
    ...{ ...cause(story), machine_id: story.ids.machine_id, tenant_id: story.ids.tenant_id },
    ...{ by: 'ada', scope: 'guests', grace_ms: 5 * minute_ms, start: { when: 'now' } },
    ...{ until: null, guard: null, ...more },
  } as ReclaimArgs);
}

function release(story: Story, tenant_id = story.ids.tenant_id) {
  const { machine_id } = story.ids;
  return story.store.transact('releaseMachine', { ...cause(story), machine_id, tenant_id });
}

async function hear(story: Story, guard: ReclaimGuard | null): Promise<number> {
  const args = { ...cause(story), machine_id: story.ids.machine_id, guard };
  return (await story.store.transact('hearMachineGuard', args)).changed;
}

async function advance(story: Story, ms: number): Promise<void> {
  await story.clock.advance(ms);
  const { machine_id } = story.ids;
  await story.store.transact('advanceReclaim', { ...cause(story), machine_id });
}

async function resume(story: Story, { id }: WorkloadRow): Promise<string> {
  const args = { ...cause(story), workload_id: id };
  return (await story.store.transact('resumePreempted', args)).outcome;
}

async function wake(story: Story, { id }: WorkloadRow): Promise<string> {
  const args = { ...cause(story), workload_id: id, how: 'a request came' };
  return (await story.store.transact('wakeIdle', args)).outcome;
}

async function change(
  story: Story,
  name: 'stopWorkload' | 'startWorkload' | 'deleteWorkload',
  workload: string,
): Promise<void> {
  const args = { ...cause(story), tenant_id: guest, workload, idempotency: null };
  const done = await story.store.transact(name, args);
  assert.ok(done.outcome === 'done' && done.result.ok, JSON.stringify(done));
}

async function limit(story: Story, workloads: number | null): Promise<void> {
  const scope = { tenant_id: guest, user: null, gpu_class: null };
  await story.store.transact('setQuota', { ...scope, limits: { workloads }, now: 0 });
}

async function reclaimText({ store, ids }: Story): Promise<string> {
  const text = 'select reclaim from machines where id = $1';
  const [row] = await select<{ reclaim: string }>(store, text, [ids.machine_id]);
  return row?.reclaim ?? '';
}

/** What was to be parked or removed is proven gone. */
async function proveEnds(story: Story): Promise<void> {
  for (const one of await runsOf(story.store)) {
    if (one.wanted !== 'run' && one.ended_at === null) await reportRun(story, one, 'parked');
  }
}
