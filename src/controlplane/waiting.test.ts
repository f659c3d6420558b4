/**
 * The list of what waits: however it changes from look to look, each look sees all of it as it is.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { createSlices } from '../lib/slices.ts';
import { listWaiting, readWaiting, type WaitingRow, waitingText } from '../store/queue.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { createWaitlist } from './waiting.ts';

const idOf = (number: number) => `id${String(number).padStart(24, '0')}`;

type Queue = Map<string, number>;

/** A store that has only a queue: revisions by id. What was read of it is counted. */
function storeOf(queue: Queue): { store: EinsoraStore; full: string[] } {
  const full: string[] = [];
  const inRange = ({ after, upto }: { after: string; upto: string }) =>
    [...queue].filter(([id]) => id > after && id <= upto).sort(([a], [b]) => (a < b ? -1 : 1));
  const read = async (query: unknown, args: never) => {
    if (query === waitingText) return inRange(args).flat().join('');
    if (query === listWaiting) {
      const page = inRange(args).slice(0, (args as { limit: number }).limit);
      return page.map(([id, revision]) => ({ id, revision }));
    }
    assert.equal(query, readWaiting);
    const { ids } = args as { ids: string[] };
    full.push(...ids);
    return ids.map((id) => ({ id, revision: queue.get(id) }) as WaitingRow);
  };
  return { store: { read } as unknown as EinsoraStore, full };
}

type Change = { kind: 'add' | 'change' | 'leave' | 'return'; which: number; many: number };

const anyChange: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom('add', 'change', 'leave', 'return'),
  which: fc.nat(2000),
  many: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 300, max: 900 })),
});

function apply(queue: Queue, gone: Queue, { kind, which, many }: Change): void {
  if (kind === 'add') {
    for (let count = 0; count < many; count += 1) queue.set(idOf(queue.size + gone.size), 1);
    return;
  }
  const ids = [...(kind === 'return' ? gone : queue).keys()].sort();
  for (const id of ids.slice(which % (ids.length + 1)).slice(0, many)) {
    const revision = 1 + (queue.get(id) ?? gone.get(id) ?? 0);
    queue.delete(id);
    gone.delete(id);
    (kind === 'leave' ? gone : queue).set(id, revision);
  }
}

const slices = createSlices(createFakeClock(), 3);

test('each look sees all that waits as it is, whatever changed since the last', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyChange, { maxLength: 12 }), async (changes) => {
      const [queue, gone]: [Queue, Queue] = [new Map(), new Map()];
      const { store } = storeOf(queue);
      const waitlist = createWaitlist(store);
      for (const change of changes) {
        apply(queue, gone, change);
        const seen = (await waitlist.read(0, slices)).map(({ id, revision }) => [id, revision]);
        assert.deepEqual(
          seen,
          [...queue].sort(([a], [b]) => (a < b ? -1 : 1)),
        );
      }
    }),
    { numRuns: 30 },
  );
});

test('of ten thousand that wait, a look reads in full only those that changed', async () => {
  const queue: Queue = new Map();
  apply(queue, new Map(), { kind: 'add', which: 0, many: 10_000 });
  const { store, full } = storeOf(queue);
  const waitlist = createWaitlist(store);
  await waitlist.read(0, slices);
  assert.equal(full.length, 10_000);
  queue.delete(idOf(17));
  queue.set(idOf(4000), 2);
  queue.set(idOf(10_000), 1);
  await waitlist.read(0, slices);
  assert.deepEqual(full.slice(10_000), [idOf(4000), idOf(10_000)]);
});

test('what left between two reads of a look is not taken for what it was', async () => {
  const queue: Queue = new Map([[idOf(0), 1]]);
  const { store } = storeOf(queue);
  const { read } = store;
  const waitlist = createWaitlist(store);
  await waitlist.read(0, slices);
  queue.set(idOf(0), 2);
  store.read = async (query, args) =>
    (query as unknown) === readWaiting ? ([] as never) : read(query, args);
  assert.deepEqual(await waitlist.read(0, slices), []);
  store.read = read;
  assert.equal((await waitlist.read(0, slices))[0]?.revision, 2);
});
