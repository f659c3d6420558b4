/**
 * Stopping what nobody uses and waking it, on every store.
 */
import assert from 'node:assert/strict';
import {
  eventsOf,
  reportRun,
  runsOf,
  type Story,
  take,
  takeReady,
  workloadsOf,
} from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import type { WorkloadRow } from './events.ts';
import { listIdlers } from './idle.ts';

const hour_ms = 3600_000;

onEveryStore('idle stop', (inStory) => {
  /** A workload whose run runs, with an idle stop after an hour. */
  const given = (name: string, body: (story: Story, row: WorkloadRow) => Promise<void>) =>
    inStory(name, async (story) => {
      await takeReady(story);
      await setPolicy(story, hour_ms);
      await body(story, await only(story));
    });

  given('its policy is in its spec, on its timeline, and found', async (story, row) => {
    assert.deepEqual(JSON.parse(row.spec).idle_policy, { after_ms: hour_ms });
    assert.equal(row.idle_after_ms, hour_ms);
    assert.equal((await last(story, row)).code, 'idle_policy_set');
    const page = { after: '', limit: 10 };
    const [found, ...others] = await story.store.read(listIdlers, page);
    assert.deepEqual([found?.id, found?.idle_after_ms, others.length], [row.id, hour_ms, 0]);
    assert.deepEqual(await story.store.read(listIdlers, { ...page, after: row.id }), []);
    const before = row.revision;
    await setPolicy(story, hour_ms);
    assert.equal((await only(story)).revision, before, 'the same again changes nothing');
    await setPolicy(story, null);
    assert.deepEqual(await story.store.read(listIdlers, page), []);
    assert.equal(JSON.parse((await only(story)).spec).idle_policy, null);
  });

  given('it is parked with the intent to run, and nothing restarts it', async (story, row) => {
    assert.equal(await park(story, row), 'parked');
    const stopping = await only(story);
    assert.deepEqual(
      [stopping.state, stopping.intent, stopping.park_cause, stopping.code],
      ['stopping', 'running', 'idle', 'idle_stopped'],
    );
    assert.equal(await park(story, row), 'changed_meanwhile');
    await proveEnd(story);
    const stopped = await only(story);
    assert.deepEqual([stopped.state, stopped.intent], ['stopped', 'running']);
    assert.deepEqual(
      [stopped.code, JSON.parse(stopped.details)],
      ['idle_stopped', { idle: '1h 0m' }],
    );
  });

  given(
    'only what was judged is parked: its run, its policy, while it runs',
    async (story, row) => {
      const { run_epoch } = row;
      assert.equal(await park(story, { ...row, run_epoch: run_epoch + 1 }), 'changed_meanwhile');
      assert.equal(await park(story, { ...row, idle_after_ms: 1 }), 'changed_meanwhile');
      assert.equal(await warn(story, { ...row, run_epoch: run_epoch + 1 }), 'changed_meanwhile');
      assert.equal(await warn(story, row), 'noted');
      assert.equal((await last(story, row)).code, 'idle_soon');
      await take(story, { do: 'stop', which: 0, clock_ms: 1 });
      assert.equal(await park(story, row), 'changed_meanwhile');
      assert.equal(await warn(story, row), 'changed_meanwhile');
    },
  );

  given('a request wakes it once, whatever it is on the way of', async (story, row) => {
    assert.equal(await wake(story, row), 'not_idle');
    await park(story, row);
    const wakes = await Promise.all(Array.from({ length: 8 }, () => wake(story, row)));
    assert.deepEqual(wakes.filter((one) => one === 'woken').length, 1);
    assert.equal((await only(story)).state, 'stopping', 'first it has to end');
    await proveEnd(story);
    assert.equal((await only(story)).state, 'pending', 'and then it starts again');
    await take(story, { do: 'place', which: 0, clock_ms: 1 });
    const [, run] = await runsOf(story.store);
    assert.ok(run);
    await reportRun(story, run, 'ready');
    await park(story, await only(story));
    await proveEnd(story);
    const again = await Promise.all(Array.from({ length: 8 }, () => wake(story, row)));
    assert.equal(again.filter((one) => one === 'woken').length, 1);
    const woken = await only(story);
    assert.deepEqual([woken.state, woken.park_cause], ['pending', 'none']);
    assert.equal((await last(story, row)).code, 'idle_woken');
  });

  given('over its quota it is not woken', async (story, row) => {
    await park(story, row);
    await proveEnd(story);
    await take(story, { do: 'launch', which: 0, clock_ms: 1 });
    await take(story, { do: 'quota', which: 1, clock_ms: 0 });
    assert.equal(await wake(story, row), 'quota_exceeded');
  });

  given('what a person stopped is woken by nobody', async (story, row) => {
    await park(story, row);
    await take(story, { do: 'stop', which: 0, clock_ms: 1 });
    assert.equal(await wake(story, row), 'not_idle');
    await proveEnd(story);
    const stopped = await only(story);
    assert.deepEqual(
      [stopped.state, stopped.intent, stopped.park_cause],
      ['stopped', 'stopped', 'user'],
    );
    assert.equal(await wake(story, row), 'not_idle');
    await take(story, { do: 'start', which: 0, clock_ms: 1 });
    assert.equal((await only(story)).state, 'pending');
  });

  given('a person may stop what is idle, and start it while it stops', async (story, row) => {
    await park(story, row);
    await take(story, { do: 'start', which: 0, clock_ms: 1 });
    await proveEnd(story);
    const started = await only(story);
    assert.deepEqual([started.state, started.park_cause], ['pending', 'none']);
  });
});

const cause = ({ clock }: Story) => ({
  ...{ now: clock.now(), mono: clock.monotonic() },
  ...{ actor: 'controller', request_id: null },
});

async function only({ store }: Story): Promise<WorkloadRow> {
  const [row] = await workloadsOf(store);
  assert.ok(row);
  return row;
}

async function last({ store }: Story, { id }: WorkloadRow) {
  const event = (await eventsOf(store, id)).at(-1);
  assert.ok(event);
  return event;
}

async function setPolicy(story: Story, after_ms: number | null): Promise<void> {
  const { id: workload, tenant_id } = await only(story);
  const args = { ...cause(story), actor: 'user:ada', tenant_id, workload, after_ms };
  assert.ok((await story.store.transact('setIdlePolicy', args)).ok);
}

const judged = (story: Story, { id, run_epoch, idle_after_ms }: WorkloadRow) => ({
  ...{ ...cause(story), workload_id: id, run_epoch, after_ms: idle_after_ms },
});
const park = async (story: Story, row: WorkloadRow) =>
  (await story.store.transact('parkIdle', judged(story, row))).outcome;
const warn = async (story: Story, row: WorkloadRow) =>
  (await story.store.transact('noteIdleSoon', { ...judged(story, row), left_ms: 300_000 })).outcome;
const wake = async (story: Story, { id }: WorkloadRow) => {
  const args = { ...cause(story), workload_id: id, how: 'a request came' };
  return (await story.store.transact('wakeIdle', args)).outcome;
};

/** What was to be parked is. */
async function proveEnd(story: Story): Promise<void> {
  const open = (await runsOf(story.store)).find(({ ended_at }) => ended_at === null);
  assert.ok(open);
  await reportRun(story, open, 'parked');
}
