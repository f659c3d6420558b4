/**
 * Rows of what runs used, and last uses, on every store.
 */
import assert from 'node:assert/strict';
import { select } from '../../test/lib/rig.ts';
import { runsOf, type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { listSamples, listUses, runsOnMachine, type SampleRow } from './samples.ts';

const step_ms = 300_000;

onEveryStore('samples', (inStory) => {
  const given = (name: string, body: (story: Story, id: string) => Promise<void>) =>
    inStory(name, async (story) => {
      await take(story, { do: 'launch', which: 0, clock_ms: 0 });
      await take(story, { do: 'place', which: 0, clock_ms: 1 });
      await body(story, (await workloadsOf(story.store))[0]?.id ?? '');
    });

  const rowOf = (workload_id: string, at: number, more: Partial<SampleRow> = {}): SampleRow => ({
    ...{ workload_id, replica: 0, run_epoch: 1, at, sample_count: 30, cpu_millis: 120 },
    ...{ cpu_most_millis: 900, memory_bytes: 2 ** 31, memory_most_bytes: 2 ** 32 },
    ...{ disk_bytes: null, gpu_percent: null, gpu_memory_bytes: null, ...more },
  });

  given('many rows are written at once and read back in order', async (story, id) => {
    const rows = Array.from({ length: 101 }, (_, at) => rowOf(id, at * step_ms));
    await story.store.transact('recordSamples', { rows, forget_before: 0 });
    const read = await story.store.read(listSamples, { workload_id: id, from: 0, limit: 1000 });
    assert.deepEqual(read, rows);
    const some = { workload_id: id, from: 90 * step_ms, limit: 5 };
    assert.deepEqual(
      (await story.store.read(listSamples, some)).map(({ at }) => at / step_ms),
      [90, 91, 92, 93, 94],
    );
    await story.store.transact('recordSamples', { rows: [], forget_before: 0 });
  });

  given('of the same 5 minutes the fuller row stays', async (story, id) => {
    const write = (sample_count: number, cpu_millis: number) =>
      story.store.transact('recordSamples', {
        rows: [rowOf(id, 0, { sample_count, cpu_millis })],
        forget_before: 0,
      });
    await write(20, 1);
    await write(5, 2);
    const page = { workload_id: id, from: 0, limit: 9 };
    assert.equal((await story.store.read(listSamples, page))[0]?.cpu_millis, 1);
    await write(25, 3);
    assert.equal((await story.store.read(listSamples, page))[0]?.cpu_millis, 3);
  });

  given('what is old goes an hour at a time, and nothing else does', async (story, id) => {
    const rows = Array.from({ length: 36 }, (_, at) => rowOf(id, at * step_ms));
    await story.store.transact('recordSamples', { rows, forget_before: 0 });
    const left = async () =>
      (await select<{ at: number }>(story.store, 'select at from run_samples order by at')).map(
        ({ at }) => at / step_ms,
      );
    const forget = () =>
      story.store.transact('recordSamples', { rows: [], forget_before: 20 * step_ms });
    await forget();
    assert.equal((await left())[0], 13);
    await forget();
    await forget();
    assert.deepEqual([(await left())[0], (await left()).length], [20, 16]);
  });

  given('last uses are kept one for each workload, and of what is there', async (story, id) => {
    const save = (used_at: number, idle_ms: number) =>
      story.store.transact('saveUses', {
        uses: [{ workload_id: id, used_at, run_epoch: 1, idle_ms, seen_ms: null }],
      });
    await save(5, 0);
    await save(4, 60_000);
    const page = { after: '', limit: 10 };
    const kept = { workload_id: id, used_at: 4, run_epoch: 1, idle_ms: 60_000, seen_ms: null };
    assert.deepEqual(await story.store.read(listUses, page), [kept]);
    assert.deepEqual(await story.store.read(listUses, { ...page, after: id }), []);
    await take(story, { do: 'delete', which: 0, clock_ms: 1 });
    const [run] = await runsOf(story.store);
    assert.ok(run);
  });

  given('a run is known to be on its own machine alone', async (story, id) => {
    const { machine_id } = story.ids;
    const ask = (machine: string, workload_ids: string[]) =>
      story.store.read(runsOnMachine, { machine_id: machine, workload_ids });
    const run = { workload_id: id, replica: 0, run_epoch: 1, gpu_count: 0 };
    assert.deepEqual(await ask(machine_id, [id, 'none']), [run]);
    assert.deepEqual(await ask('another', [id]), []);
  });
});
