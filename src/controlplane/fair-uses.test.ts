/**
 * What fair share is told of the ledger.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginTale } from '../../test/lib/ledger-tale.ts';
import { counted, keepingLog, openTestStore } from '../../test/lib/rig.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { createFairUses, weightedSeconds } from './fair-uses.ts';

const hour = 3600_000;
const week = 7 * 24 * hour;
const near = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-6 * b, `${a} is not ${b}`);

test('a second counts the class, and half as much a week later', () => {
  const at = 10 * week;
  const entry = {
    sign: 1 as const,
    placed_class: 'cpu-4c-8g',
    started_at: at - 1000,
    ended_at: at,
  };
  near(weightedSeconds(entry, at), 4 * 0.9999994);
  near(weightedSeconds(entry, at + week), 2 * 0.9999994);
  near(weightedSeconds({ ...entry, sign: -1 }, at) * -1, 4 * 0.9999994);
  const [early, late] = [
    { ...entry, started_at: at - hour, ended_at: at - hour / 2 },
    { ...entry, started_at: at - hour / 2, ended_at: at },
  ];
  const whole = { ...entry, started_at: at - hour };
  near(weightedSeconds(early, at) + weightedSeconds(late, at), weightedSeconds(whole, at));
});

test('what is over, what goes on and what is a correction counts; a look costs one a minute', async () => {
  const { store, close } = await openTestStore('memory');
  try {
    const tale = await beginTale(store);
    const uses = createFairUses({
      ...{ store: store as unknown as EinsoraStore, clock: tale.clock, log: keepingLog([]) },
    });
    assert.deepEqual(await uses(), []);
    await tale.launch();
    await tale.run(hour);
    assert.deepEqual(await uses(), [], 'the last answer, for a minute');
    await tale.pass(60_000);
    const who = { tenant_id: tale.ids.tenant_id, user_id: tale.ids.user_id };
    await uses();
    await new Promise((resolve) => setImmediate(resolve));
    const [use] = await uses();
    assert.deepEqual({ ...use, weighted_s: 0 }, { ...who, weighted_s: 0 });
    assert.ok(Math.abs((use?.weighted_s ?? 0) - 3600) < 20);
    await tale.start();
    await tale.place();
    await tale.report('ready');
    await tale.pass(hour);
    await tale.prove();
    await uses();
    await new Promise((resolve) => setImmediate(resolve));
    const [more] = await uses();
    assert.ok(Math.abs((more?.weighted_s ?? 0) - 7200) < 80, `${more?.weighted_s}`);
  } finally {
    await close();
  }
});

test('a store that cannot be read is said in the log, and the last answer stands', async () => {
  const { store, close } = await openTestStore('memory');
  const tale = await beginTale(store);
  await close();
  const lines: Parameters<typeof keepingLog>[0] = [];
  const broken = counted(store).store as unknown as EinsoraStore;
  const uses = createFairUses({ store: broken, clock: tale.clock, log: keepingLog(lines) });
  assert.deepEqual(await uses(), []);
  assert.deepEqual(
    lines.map(({ level }) => level),
    ['warn'],
  );
});
