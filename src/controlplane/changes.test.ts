/**
 * Numbers of transactions: a reader that stays below what is under way misses nothing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EinsoraStore } from '../store/transactions.ts';
import { numberChanges } from './changes.ts';

type Call = { change: number; finish(): void; fail(): void };

/** A store whose transactions end when the test says so. */
async function given(last: number) {
  const calls: Call[] = [];
  const store = {
    read: async () => last,
    transact: (_name: string, args: { change: number }) => {
      const { promise, resolve, reject } = Promise.withResolvers<null>();
      const finish = () => resolve(null);
      calls.push({ change: args.change, finish, fail: () => reject(new Error('no')) });
      return promise;
    },
  } as unknown as EinsoraStore;
  const changes = await numberChanges(store);
  const write = () => changes.store.transact('forgetIdempotencyKeys', { kept_rounds: 1 });
  return { changes, calls, write };
}

test('numbers go on after those that the store has', async () => {
  const { calls, write, changes } = await given(41);
  assert.equal(changes.settledBelow(), 42);
  void write();
  void write();
  assert.deepEqual(
    calls.map((call) => call.change),
    [42, 43],
  );
});

test('what is still under way holds back all after it, however it ends', async () => {
  const { calls, write, changes } = await given(0);
  const told: string[] = [];
  changes.onSettled((outcome) => told.push(outcome));
  const all = [write(), write(), write()];
  calls[1]?.finish();
  await all[1];
  assert.equal(changes.settledBelow(), 1);
  calls[0]?.fail();
  await assert.rejects(all[0] ?? Promise.resolve());
  assert.equal(changes.settledBelow(), 3);
  calls[2]?.finish();
  await all[2];
  assert.equal(changes.settledBelow(), 4);
  assert.deepEqual(told, ['done', 'failed', 'done']);
});
