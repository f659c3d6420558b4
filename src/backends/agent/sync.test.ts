/**
 * Sync: reports that are too old change nothing, polls are held and let go, silence writes nothing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settle } from '../../../test/lib/fake-clock.ts';
import {
  counted,
  createRig,
  endpointSpec,
  gib,
  inventoryOf,
  type Rig,
  select,
} from '../../../test/lib/rig.ts';
import { limits } from '../../contract/limits.ts';
import type { AgentIdentity, ObservedRun, Report, SyncReply } from '../../contract/sync.ts';
import { makeId } from '../../core/ids.ts';

const inventory = inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib });
const never = new AbortController().signal;

type Given = { rig: Rig; greeted: AgentIdentity; written: string[] };

function given(name: string, body: (given: Given) => Promise<void>): void {
  test(name, async () => {
    let written: string[] = [];
    const rig = await createRig({
      wrap: (store) => {
        const counting = counted(store);
        written = counting.written;
        return counting.store;
      },
    });
    try {
      await body({ rig, greeted: await greet(rig), written });
    } finally {
      await rig.close();
    }
  });
}

/** A hello of an agent that knows what the machine's agents were told last. */
async function greet({ sync, ids, store }: Rig, boot_id = 'b'): Promise<AgentIdentity> {
  const [row] = await select<{ agent_epoch: number }>(store, 'select agent_epoch from machines');
  const agent_epoch = row?.agent_epoch ?? 0;
  const known = { store_uuid: 's', store_epoch: 1, agent_epoch };
  const words = { boot_id, hello_id: `hello ${agent_epoch}`, known, inventory };
  const greeted = await sync.hello(ids.machine_id, words);
  assert.ok(greeted.outcome === 'greeted');
  const { outcome: _, ...identity } = greeted;
  return identity;
}

function report(greeted: AgentIdentity, seq: number, more: Partial<Report> = {}): Report {
  const words = { boot_id: 'b', have_generation: -1, observed: [], inventory: null };
  return { ...greeted, ...words, seq, ...more };
}

/** A workload of this machine, placed; its run as the agent would report it. */
async function place({ store, clock, random, ids }: Rig): Promise<ObservedRun> {
  const cause = { now: clock.now(), actor: 'controller', request_id: null };
  const id = makeId(clock.now(), random.bytes(10));
  await store.transact('launchWorkload', {
    ...{ id, tenant_id: ids.tenant_id, creator_id: ids.user_id, spec: endpointSpec() },
    ...{ name_is_free: true, actor: 'user:ada', request_id: 'r', now: clock.now() },
    idempotency: null,
  });
  const chosen = { machine_id: ids.machine_id, machine_name: 'desk', driver: 'sim' } as const;
  const placement = { ...chosen, isolation: 'weak' as const, placed_class: 'cpu-1c-2g' };
  await store.transact('placeWorkload', { ...cause, workload_id: id, revision: 1, placement });
  const run = { workload_id: id, replica: 0, run_epoch: 1, state: 'ready' as const, stages: [] };
  return { ...run, exit: null, reason: null, details: {}, log_tail: null };
}

async function generationOf({ store, ids }: Rig): Promise<number> {
  const text = 'select generation from machines where id = $1';
  const [row] = await select<{ generation: number }>(store, text, [ids.machine_id]);
  return row?.generation ?? -1;
}

async function stateOf({ store }: Rig): Promise<string | undefined> {
  return (await select<{ state: string }>(store, 'select state from workloads'))[0]?.state;
}

type Poll = { reply: SyncReply | null };
const outcomeOf = (poll: Poll) => poll.reply?.outcome;

/** Opens a poll that has nothing new to hear. */
async function hold({ rig, greeted }: Given, seq: number, signal = never) {
  const have_generation = await generationOf(rig);
  const words = report(greeted, seq, { have_generation });
  const poll: Poll = { reply: null };
  const done = rig.sync.sync(rig.ids.machine_id, words, signal).then((reply) => {
    poll.reply = reply;
  });
  await settle();
  return { poll, done };
}

given('an agent that is not known says hello first', async ({ rig, greeted }) => {
  const reply = await rig.sync.sync('another-machine', report(greeted, 1), never);
  assert.deepEqual(reply, { outcome: 'hello_again' });
  const words = { boot_id: 'b', hello_id: 'h', known: null, inventory };
  const refused = await rig.sync.hello('another-machine', words);
  assert.deepEqual(refused, { outcome: 'unknown_machine' });
});

given('the first report gets the complete desired state at once', async ({ rig, greeted }) => {
  const run = await place(rig);
  const reply = await rig.sync.sync(rig.ids.machine_id, report(greeted, 1), never);
  assert.ok(reply.outcome === 'accepted');
  assert.deepEqual(
    reply.desired?.map(({ workload_id, action }) => [workload_id, action]),
    [[run.workload_id, 'run']],
  );
  assert.equal(reply.generation, await generationOf(rig));
});

given('a report with an old number changes nothing', async ({ rig, greeted, written }) => {
  const run = await place(rig);
  await rig.sync.sync(rig.ids.machine_id, report(greeted, 2), never);
  written.length = 0;
  for (const seq of [1, 2]) {
    const words = report(greeted, seq, { observed: [run] });
    const reply = await rig.sync.sync(rig.ids.machine_id, words, never);
    assert.deepEqual(reply, { outcome: 'stale_report' });
  }
  assert.deepEqual([await stateOf(rig), written], ['provisioning', []]);
});

given('a report of an older agent changes nothing', async ({ rig, greeted, written }) => {
  const run = await place(rig);
  await greet(rig);
  written.length = 0;
  const words = report(greeted, 9, { observed: [run] });
  assert.deepEqual(await rig.sync.sync(rig.ids.machine_id, words, never), {
    outcome: 'stale_agent',
  });
  assert.deepEqual([await stateOf(rig), written], ['provisioning', []]);
});

given('a hello that comes twice leaves the session as it is', async ({ rig, greeted }) => {
  await rig.sync.sync(rig.ids.machine_id, report(greeted, 5), never);
  const known = { store_uuid: 's', store_epoch: 1, agent_epoch: 0 };
  const words = { boot_id: 'b', hello_id: 'hello 0', known, inventory };
  const again = await rig.sync.hello(rig.ids.machine_id, words);
  assert.deepEqual(again, { outcome: 'greeted', ...greeted });
  const late = await rig.sync.sync(rig.ids.machine_id, report(greeted, 4), never);
  assert.deepEqual(late, { outcome: 'stale_report' });
  const next = await rig.sync.sync(rig.ids.machine_id, report(greeted, 6), never);
  assert.equal(next.outcome, 'accepted');
});

given('a hello from another boot is taken one lease after the last word', async ({ rig }) => {
  const known = { store_uuid: 's', store_epoch: 1, agent_epoch: 1 };
  const words = { boot_id: 'b2', hello_id: 'h2', known, inventory };
  const hello = () => rig.sync.hello(rig.ids.machine_id, words);
  assert.deepEqual(await hello(), { outcome: 'other_boot' });
  await rig.clock.advance(limits.machine_lease_ms);
  assert.equal((await hello()).outcome, 'greeted');
});

given('the desired state is not told again while the agent has it', async (all) => {
  const { done, poll } = await hold(all, 1);
  await all.rig.clock.advance(limits.sync_hold_ms);
  await done;
  assert.ok(poll.reply?.outcome === 'accepted');
  assert.equal(poll.reply.desired, null);
});

given('what nobody told of is heard of within seconds', async (all) => {
  const { done, poll } = await hold(all, 1);
  await place(all.rig);
  await all.rig.clock.advance(limits.sync_hold_ms);
  await done;
  assert.ok(poll.reply?.outcome === 'accepted');
  assert.equal(poll.reply.desired?.length, 1);
});

given('a report for another copy of the store is none for this one', async ({ rig, greeted }) => {
  const words = report({ ...greeted, store_epoch: 2 }, 1);
  assert.deepEqual(await rig.sync.sync(rig.ids.machine_id, words, never), {
    outcome: 'hello_again',
  });
});

given('of a report that comes twice at once, one is taken', async ({ rig, greeted }) => {
  const words = report(greeted, 1);
  const both = [0, 1].map(() => rig.sync.sync(rig.ids.machine_id, words, never));
  const outcomes = (await Promise.all(both)).map((reply) => reply.outcome);
  assert.deepEqual(outcomes.sort(), ['accepted', 'stale_report']);
});

given('a newer agent ends the held poll of an older one', async (all) => {
  const { poll, done } = await hold(all, 1);
  assert.equal(poll.reply, null, 'it is held');
  await greet(all.rig);
  await done;
  assert.deepEqual(poll.reply, { outcome: 'stale_agent' });
});

given('a held poll returns when the generation changes', async (all) => {
  const { poll, done } = await hold(all, 1);
  await settle();
  assert.equal(poll.reply, null);
  await place(all.rig);
  all.rig.sync.wake();
  await done;
  const { reply } = poll as { reply: Extract<SyncReply, { outcome: 'accepted' }> };
  assert.deepEqual([reply.outcome, reply.desired?.length], ['accepted', 1]);
});

given('a wake without a change keeps the poll held', async (all) => {
  const { poll, done } = await hold(all, 1);
  all.rig.sync.wake();
  await settle();
  assert.equal(poll.reply, null);
  all.rig.sync.close();
  await done;
});

given('a held poll returns at the end of the hold, and not before', async (all) => {
  const { poll, done } = await hold(all, 1);
  await all.rig.clock.advance(limits.sync_hold_ms - 1);
  assert.equal(poll.reply, null);
  await all.rig.clock.advance(1);
  await done;
  assert.equal(outcomeOf(poll), 'accepted');
});

given('a newer poll ends the one before, and is itself held and woken', async (all) => {
  const first = await hold(all, 1);
  const second = await hold(all, 2);
  await first.done;
  assert.equal(outcomeOf(first.poll), 'accepted');
  assert.equal(second.poll.reply, null, 'the newer one is held');
  await place(all.rig);
  all.rig.sync.wake();
  await second.done;
  assert.ok(second.poll.reply !== null);
});

given('a caller that has left is not held', async (all) => {
  const leaving = new AbortController();
  const { poll, done } = await hold(all, 1, leaving.signal);
  leaving.abort();
  await done;
  assert.ok(poll.reply !== null);
});

given('closing lets every held poll go', async (all) => {
  const { done } = await hold(all, 1);
  all.rig.sync.close();
  await done;
  const { poll } = await hold(all, 2);
  assert.ok(poll.reply !== null, 'later ones are not held at all');
});

given('a poll that changes nothing writes nothing', async (all) => {
  const { rig, greeted, written } = all;
  const run = await place(rig);
  const say = async (seq: number, more: Partial<ObservedRun> = {}) => {
    const words = report(greeted, seq, { observed: [{ ...run, ...more }] });
    await rig.sync.sync(rig.ids.machine_id, words, never);
  };
  await say(1);
  assert.ok(written.includes('applyReport'));
  written.length = 0;
  const stage = { name: 'load' as const, state: 'running' as const, duration_ms: 5 };
  const stages = [{ ...stage, done_bytes: 1, total_bytes: 2, note: null }];
  for (let seq = 2; seq < 12; seq += 1) await say(seq, { stages });
  assert.deepEqual(written, []);
  assert.deepEqual(rig.presence.stages(run), stages, 'progress is shown all the same');
});

given('a report that could not be stored is stored by the next one', async (all) => {
  const { rig, greeted } = all;
  const run = await place(rig);
  const { transact } = rig.store;
  rig.store.transact = () => Promise.reject(new Error('the disk is full'));
  const words = report(greeted, 1, { observed: [run] });
  await assert.rejects(rig.sync.sync(rig.ids.machine_id, words, never), /the disk is full/);
  rig.store.transact = transact;
  const again = report(greeted, 2, { observed: [run] });
  await rig.sync.sync(rig.ids.machine_id, again, never);
  assert.equal(await stateOf(rig), 'running');
});

given('progress of a run that was removed is forgotten', async ({ rig, greeted }) => {
  const run = await place(rig);
  const stage = { name: 'load' as const, state: 'done' as const, duration_ms: 5 };
  const stages = [{ ...stage, done_bytes: null, total_bytes: null, note: null }];
  for (const [index, state] of (['ready', 'removed', 'removed'] as const).entries()) {
    const words = report(greeted, index + 1, { observed: [{ ...run, state, stages }] });
    await rig.sync.sync(rig.ids.machine_id, words, never);
  }
  assert.deepEqual(rig.presence.stages(run), []);
});

given('what a machine offers may change while its agent runs', async ({ rig, greeted }) => {
  const smaller = inventoryOf({ cpu_millis: 1000, memory_bytes: gib });
  const before = rig.woken.controller;
  const words = report(greeted, 1, { inventory: smaller });
  await rig.sync.sync(rig.ids.machine_id, words, never);
  const [row] = await select<{ cpu_millis: number }>(rig.store, 'select cpu_millis from machines');
  assert.equal(row?.cpu_millis, 1000);
  assert.ok(rig.woken.controller > before, 'admission looks again');
});

given('a machine is online for one lease after its last word', async ({ rig, greeted }) => {
  const { machine_id } = rig.ids;
  await rig.sync.sync(machine_id, report(greeted, 1), never);
  assert.equal(rig.presence.lastHeardAt(machine_id), rig.clock.now());
  rig.clock.stepWall(10 * limits.machine_lease_ms);
  assert.equal(rig.presence.isOnline(machine_id), true, 'a step of the wall clock is no silence');
  await rig.clock.advance(limits.machine_lease_ms - 1);
  assert.equal(rig.presence.isOnline(machine_id), true);
  await rig.clock.advance(1);
  assert.equal(rig.presence.isOnline(machine_id), false);
});

given('a machine that slept is told by its clock, and its sleep is not metered', async (all) => {
  const { rig, greeted, written } = all;
  const gone = new AbortController();
  gone.abort();
  const run = await place(rig);
  let seq = 0;
  const hear = (asleep_ms: number) => {
    seq += 1;
    const mono_ms = rig.clock.monotonic() - asleep_ms;
    const observed = [{ ...run, state: 'ready' as const }];
    return rig.sync.sync(
      rig.ids.machine_id,
      report(greeted, seq, { mono_ms, observed }),
      gone.signal,
    );
  };
  await hear(0);
  await rig.clock.advance(20_000);
  await hear(0);
  await rig.clock.advance(3600_000);
  await hear(3600_000);
  assert.equal(written.includes('deductSleep'), false, 'it may have been late');
  await rig.clock.advance(20_000);
  await hear(3600_000);
  await rig.clock.advance(20_000);
  await hear(3600_000);
  const taken = await select<{ sign: number; length: number }>(
    rig.store,
    "select sign, ended_at - started_at as length from ledger where reason = 'suspended'",
  );
  assert.deepEqual(taken, [{ sign: -1, length: 3600_000 }]);
});

given('how long ago a run ended is no news by itself', async ({ rig, greeted, written }) => {
  const gone = new AbortController();
  gone.abort();
  const run = await place(rig);
  for (const [index, ended_ago_ms] of [5, 20_005, 40_005].entries()) {
    const observed = [{ ...run, state: 'ended' as const, ended_ago_ms }];
    const words = report(greeted, index + 1, { observed });
    await rig.sync.sync(rig.ids.machine_id, words, gone.signal);
    await rig.clock.advance(20_000);
  }
  assert.equal(written.filter((name) => name === 'applyReport').length, 1);
});

given('what a guard says wakes admission, is shown, and writes nothing', async (at) => {
  const { rig, greeted, written } = at;
  const said = { level: 2 as const, why: ['owner_active' as const], own_why: [], grace_ms: 1000 };
  const guard = { ...said, until_ms: 300_000 };
  await rig.sync.sync(rig.ids.machine_id, report(greeted, 1), AbortSignal.abort());
  const [before, writes] = [rig.woken.controller, written.length];
  const told = (seq: number, more: Partial<Report>) =>
    rig.sync.sync(rig.ids.machine_id, report(greeted, seq, more), AbortSignal.abort());
  await told(2, { guard });
  await told(3, { guard: { ...guard, until_ms: 200_000 } });
  assert.equal(rig.woken.controller, before + 1, 'its moments are no news');
  await told(4, {});
  const shown = (await rig.apiDeps.machines.list(rig.ids.tenant_id))[0]?.guard;
  assert.deepEqual(shown, { level: 2, why: ['owner_active'], own_why: [] });
  await told(5, { guard: { ...guard, level: 0, why: [] } });
  assert.equal(rig.woken.controller, before + 2);
  assert.equal(written.length, writes);
});

given('what nobody told of is answered once, and then a poll is held again', async (all) => {
  const { rig, greeted } = all;
  const first = report(greeted, 1);
  await rig.sync.sync(rig.ids.machine_id, first, never);
  await place(rig);
  await rig.sync.sync(rig.ids.machine_id, report(greeted, 2), never);
  const { poll, done } = await hold(all, 3);
  assert.equal(poll.reply, null, 'it is held');
  rig.sync.close();
  await done;
});
