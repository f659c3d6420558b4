import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import { gib, inventoryOf } from '../../test/lib/rig.ts';
import type { Inventory } from '../contract/machines.ts';
import { silentLog } from '../lib/log.ts';
import { createLooking } from './looking.ts';

const small = inventoryOf({ cpu_millis: 1000, memory_bytes: 2 * gib });
const large = inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib });

/** A machine of which the test says when a look ends, and with what. */
function rig() {
  const clock = createFakeClock();
  const stopping = new AbortController();
  const looks: { anew: boolean; end: (found: Inventory | Error) => void }[] = [];
  let news = 0;
  const looking = createLooking({
    inventory: (anew) =>
      new Promise((resolve, reject) => {
        const end = (found: Inventory | Error) =>
          found instanceof Error ? reject(found) : resolve(found);
        looks.push({ anew, end });
      }),
    ...{ clock, log: silentLog, stopping: stopping.signal },
    changed: () => {
      news += 1;
    },
  });
  const end = async (found: Inventory | Error) => {
    looks.at(-1)?.end(found);
    await settle();
  };
  const begin = async () => {
    const first = looking.begin();
    await end(small);
    await first;
  };
  return { clock, stopping, looking, looks, end, begin, news: () => news };
}

test('a look that takes its time keeps no report waiting, and is told by the next one', async () => {
  const { clock, looking, looks, end, begin, news } = rig();
  await begin();
  await clock.advance(60_000);
  assert.equal(looking.batch().inventory, null);
  await clock.advance(60_000);
  assert.equal(looking.batch().inventory, null);
  assert.equal(looks.length, 2, 'one look at a time');
  await end(large);
  assert.equal(news(), 1);
  assert.deepEqual(looking.batch().inventory, large);
});

test('what a lost report said is said again; what was taken is not', async () => {
  const { clock, looking, end, begin } = rig();
  await begin();
  await clock.advance(60_000);
  looking.batch();
  await end(large);
  assert.deepEqual(looking.batch().inventory, large);
  const again = looking.batch();
  assert.deepEqual(again.inventory, large);
  again.taken();
  assert.equal(looking.batch().inventory, null);
});

test('a machine that is as before tells nothing, unless somebody asked', async () => {
  const { clock, looking, looks, end, begin, news } = rig();
  await begin();
  await clock.advance(60_000);
  looking.batch();
  await end({ ...small, disk_free_bytes: 1 });
  assert.deepEqual([looking.batch().inventory, news()], [null, 0]);
  looking.ask(1);
  assert.equal(looks.at(-1)?.anew, true);
  assert.equal(looking.batch().looked, 0);
  await end(small);
  const { inventory, looked } = looking.batch();
  assert.deepEqual([inventory, looked, news()], [small, 1, 1]);
});

test('a wish during a look is a look of its own, and a wish told twice is one', async () => {
  const { clock, looking, looks, end, begin } = rig();
  await begin();
  await clock.advance(60_000);
  looking.batch();
  looking.ask(1);
  looking.ask(1);
  await end(small);
  assert.deepEqual(
    looks.map(({ anew }) => anew),
    [false, false, true],
  );
  assert.equal(looking.batch().looked, 0);
  await end(small);
  assert.equal(looking.batch().looked, 1);
  assert.equal(looks.length, 3);
});

test('a look that fails is no news but to who asked, and the next one is made', async () => {
  const { clock, looking, looks, end, begin, news } = rig();
  await begin();
  looking.ask(1);
  await end(new Error('the disk is gone'));
  const { inventory, looked } = looking.batch();
  assert.deepEqual([inventory, looked, news()], [null, 1, 1]);
  await clock.advance(60_000);
  looking.batch();
  assert.equal(looks.length, 3);
});

test('after the end nothing is looked at', async () => {
  const { stopping, looking, looks, begin } = rig();
  await begin();
  stopping.abort();
  looking.ask(1);
  assert.equal(looks.length, 1);
});
