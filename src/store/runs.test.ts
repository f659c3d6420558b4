/**
 * Runs and holds: no machine is promised twice, no hold ends by a wish, no old word counts.
 */
import assert from 'node:assert/strict';
import { select } from '../../test/lib/rig.ts';
import { reportRun, runsOf, type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findMachine } from './machines.ts';
import { type RunRow, runsOfMachine } from './runs.ts';

const launch = { do: 'launch', which: 0, clock_ms: 1 } as const;
const place = (which: number) => ({ do: 'place', which, clock_ms: 1 }) as const;

onEveryStore('runs', (inStory) => {
  inStory('of four placements on room for three, three are placed', async (story) => {
    for (let count = 0; count < 4; count += 1) await take(story, launch);
    await Promise.all([0, 1, 2, 3].map((which) => take(story, place(which))));
    const states = (await workloadsOf(story.store)).map((row) => row.state);
    assert.deepEqual(states.sort(), ['pending', 'provisioning', 'provisioning', 'provisioning']);
  });

  inStory('sixty-four placements of one workload at once make one run', async (story) => {
    await take(story, launch);
    await Promise.all(Array.from({ length: 64 }, () => take(story, place(0))));
    assert.equal((await runsOf(story.store)).length, 1);
  });

  inStory('a stop releases nothing; the proof does', async (story) => {
    const run = await placed(story);
    await take(story, { do: 'stop', which: 0, clock_ms: 1 });
    assert.equal(await openHolds(story), 1);
    await reportRun(story, run, 'unknown');
    assert.equal(await openHolds(story), 1);
    await reportRun(story, run, 'parked');
    assert.equal(await openHolds(story), 0);
  });

  inStory('a report of a superseded run leaves the workload as it is', async (story) => {
    const first = await placed(story);
    await reportRun(story, first, 'ended');
    story.clock.stepWall(60_000);
    await take(story, place(0));
    const [before] = await workloadsOf(story.store);
    for (const says of ['ready', 'unknown', 'ended', 'parked', 'removed'] as const) {
      await reportRun(story, first, says);
    }
    const [after] = await workloadsOf(story.store);
    assert.deepEqual(after, before);
    const [old] = await runsOf(story.store);
    assert.notEqual(old?.removed_at, null);
  });

  inStory('a repeated report changes nothing', async (story) => {
    const run = await placed(story);
    for (const says of ['preparing', 'ready', 'unknown', 'ended', 'removed'] as const) {
      assert.equal((await reportRun(story, run, says)).changed, 1, says);
      assert.equal((await reportRun(story, run, says)).changed, 0, `${says} again`);
    }
  });

  inStory('a report of another machine about this run changes nothing', async (story) => {
    const run = await placed(story);
    const before = await workloadsOf(story.store);
    await story.store.transact('addMachine', {
      id: 'other-machine',
      tenant_id: story.ids.tenant_id,
      name: 'other',
      region: 'local',
      now: 0,
    });
    const other = { ...story, ids: { ...story.ids, machine_id: 'other-machine' } };
    const { changed } = await reportRun({ ...other, proven: new Set() }, run, 'ended');
    assert.equal(changed, 0);
    assert.deepEqual(await workloadsOf(story.store), before);
  });

  inStory('a machine hears of every change of its desired state by number', async (story) => {
    let last = JSON.stringify(await desired(story));
    let generation = await generationOf(story);
    const check = async (what: string) => {
      const now = JSON.stringify(await desired(story));
      const next = await generationOf(story);
      assert.ok(next >= generation, `${what}: it never falls`);
      if (now !== last) assert.ok(next > generation, `${what}: it rises with the change`);
      last = now;
      generation = next;
    };
    const run = await placed(story);
    await check('placed');
    await take(story, { do: 'stop', which: 0, clock_ms: 1 });
    await check('stopped');
    await reportRun(story, run, 'parked');
    await check('parked');
    await take(story, { do: 'start', which: 0, clock_ms: 1 });
    await take(story, place(0));
    await check('placed again');
    await reportRun(story, run, 'removed');
    await check('removed');
    await take(story, { do: 'delete', which: 0, clock_ms: 1 });
    await check('deleted');
  });

  inStory('a program ended for lack of memory is a note, once for each rise', async (story) => {
    const run = await placed(story);
    await reportRun(story, run, 'ready');
    const notes = async () => {
      const text = `select details from workload_events where code = 'memory_kill' order by number`;
      const rows = await select<{ details: string }>(story.store, text);
      return rows.map((row) => JSON.parse(row.details).count);
    };
    await reportRun(story, run, 'ready', false, { oom_kills: 1 });
    await reportRun(story, run, 'ready', false, { oom_kills: 1 });
    assert.deepEqual(await notes(), [1]);
    await reportRun(story, run, 'ready', false, { oom_kills: 3 });
    await reportRun(story, run, 'ready');
    assert.deepEqual(await notes(), [1, 3]);
    assert.equal((await workloadsOf(story.store))[0]?.state, 'running');
    await reportRun(story, run, 'ended', false, { oom_kills: 4 });
    assert.deepEqual(await notes(), [1, 3], 'an end says it by itself');
  });

  inStory('a clock that steps back makes no time of a timeline fall', async (story) => {
    const run = await placed(story);
    story.clock.stepWall(-3600_000);
    await reportRun(story, run, 'ready');
    const [row] = await workloadsOf(story.store);
    assert.equal(row?.state, 'running');
    assert.ok((row?.state_since ?? 0) >= (row?.created_at ?? 0));
  });
});

async function placed(story: Story): Promise<RunRow> {
  await take(story, launch);
  await take(story, place(0));
  const run = (await runsOf(story.store)).at(-1);
  assert.ok(run);
  return run;
}

async function openHolds(story: Story): Promise<number> {
  const text = 'select count(*) as count from holds where released_at is null';
  return (await select<{ count: number }>(story.store, text))[0]?.count ?? -1;
}

async function desired({ store, ids }: Story) {
  const rows = await store.read(runsOfMachine, { machine_id: ids.machine_id });
  return rows.map(({ workload_id, run_epoch, wanted }) => ({ workload_id, run_epoch, wanted }));
}

async function generationOf({ store, ids }: Story): Promise<number> {
  const row = await store.read(findMachine, { machine_id: ids.machine_id });
  return row?.generation ?? -1;
}
