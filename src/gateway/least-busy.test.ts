/**
 * The run with the fewest requests answers; one that could not be reached is left alone a while.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { seededRandom } from '../lib/random.ts';
import { createLeastBusy } from './least-busy.ts';

const workload_id = 'w'.repeat(26);
const runs = [0, 1, 2].map((replica) => ({ workload_id, replica, run_epoch: replica + 1 }));
const [first, second, third] = runs;

function given() {
  const clock = createFakeClock();
  assert.ok(first && second && third);
  return { clock, load: createLeastBusy(seededRandom(4), clock), first, second, third };
}

test('the one with the fewest open requests is taken', () => {
  const { load, first, third } = given();
  const ends = [load.begin(first), load.begin(first), load.begin(third)];
  assert.equal(load.choose(runs)?.replica, 1);
  load.begin(runs[1] ?? first);
  load.begin(runs[1] ?? first);
  assert.equal(load.choose(runs)?.replica, 2);
  for (const end of ends) end();
  ends[0]?.(); // an end counts once
  assert.equal(new Set(Array.from({ length: 50 }, () => load.choose(runs)?.replica)).has(1), false);
});

test('of equally busy ones each gets its share', () => {
  const { load } = given();
  const counts = [0, 0, 0];
  for (let count = 0; count < 300; count += 1) {
    const { replica = 0 } = load.choose(runs) ?? {};
    counts[replica] = (counts[replica] ?? 0) + 1;
  }
  assert.ok(
    counts.every((count) => count > 60),
    String(counts),
  );
});

test('one that could not be reached is avoided for five seconds, unless it is the only one', async () => {
  const { load, clock, first, second } = given();
  load.unreachable(first);
  const of_two = () => new Set(Array.from({ length: 40 }, () => load.choose([first, second])));
  assert.deepEqual([...of_two()], [second]);
  assert.equal(load.choose([first]), first);
  await clock.advance(5000);
  assert.equal(of_two().size, 2);
});
