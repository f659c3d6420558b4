/**
 * The order of all changes: read page by page, each event once, and only what is below the bound.
 */
import assert from 'node:assert/strict';
import { addTenant, endpointSpec } from '../../test/lib/rig.ts';
import type { Story } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { makeId } from '../core/ids.ts';
import { type ChangeCursor, type ChangeRow, lastChange, listChanges } from './changes.ts';

const start = { change: 0, workload_id: '', number: 0 };

onEveryStore('changes', (inStory) => {
  inStory('pages go through all of them in order, each once', async (story) => {
    for (const [change, name] of [
      [3, 'late'],
      [1, 'early'],
      [2, 'middle'],
    ] as const) {
      await launch(story, name, change);
    }
    await stop(story, 'early', 4);
    const seen: ChangeRow[] = [];
    for (let after: ChangeCursor = start; ; ) {
      const args = { after, below: 99, tenant_id: null, limit: 2 };
      const page = await story.store.read(listChanges, args);
      const last = page.at(-1);
      if (last === undefined) break;
      seen.push(...page);
      after = { change: last.change, workload_id: last.workload_id, number: last.number };
    }
    assert.deepEqual(
      seen.map((row) => [row.change, row.name, row.number]),
      [
        [1, 'early', 1],
        [2, 'middle', 1],
        [3, 'late', 1],
        [4, 'early', 2],
        [4, 'early', 3],
      ],
    );
    assert.equal(await story.store.read(lastChange, {}), 4);
  });

  inStory('what may still be on its way, and what nobody numbered, is not given', async (story) => {
    assert.equal(await story.store.read(lastChange, {}), 0);
    await launch(story, 'unnumbered');
    await launch(story, 'done', 5);
    await launch(story, 'under-way', 6);
    const names = async (after: ChangeCursor, below: number) => {
      const args = { after, below, tenant_id: null, limit: 10 };
      return (await story.store.read(listChanges, args)).map((row) => row.name);
    };
    assert.deepEqual(await names({ ...start, change: 1 }, 6), ['done']);
    assert.deepEqual(await names({ ...start, change: 6 }, 7), ['under-way']);
    assert.deepEqual(await names({ ...start, change: 7 }, 9), []);
  });

  inStory('of one tenant there is nothing of another', async (story) => {
    await addTenant(story.store, 'other', 'other');
    await launch(story, 'ours', 1);
    await launch(story, 'theirs', 2, 'other');
    const args = { after: start, below: 9, tenant_id: 'other', limit: 10 };
    const rows = await story.store.read(listChanges, args);
    assert.deepEqual(
      rows.map((row) => row.name),
      ['theirs'],
    );
  });
});

async function launch(story: Story, name: string, change = 0, tenant_id?: string): Promise<void> {
  const { store, ids, clock, random } = story;
  await store.transact('launchWorkload', {
    ...{ id: makeId(clock.now(), random.bytes(10)), tenant_id: tenant_id ?? ids.tenant_id },
    ...{ creator_id: ids.user_id, spec: endpointSpec({ name }), name_is_free: false },
    ...{ actor: 'user:ada', request_id: 'r', now: clock.now(), idempotency: null },
    ...(change === 0 ? {} : { change }),
  });
}

async function stop({ store, ids, clock }: Story, workload: string, change: number) {
  await store.transact('stopWorkload', {
    ...{ tenant_id: ids.tenant_id, workload, actor: 'user:ada', request_id: 'r', change },
    ...{ now: clock.now(), idempotency: null },
  });
}
