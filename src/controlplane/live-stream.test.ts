/**
 * One stream: bounded, honest about what it left out, and gone when nobody takes anything.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import { limits } from '../contract/limits.ts';
import { createLiveStream, eventText } from './live-stream.ts';

function given() {
  const clock = createFakeClock();
  const counts = { ended: 0, hung_up: 0 };
  const stream = createLiveStream({
    clock,
    hangUp() {
      counts.hung_up += 1;
    },
    ended() {
      counts.ended += 1;
    },
  });
  const reader = stream.body.getReader();
  const take = async () => new TextDecoder().decode((await reader.read()).value);
  return { clock, counts, stream, reader, take };
}

test('what is said before the beginning comes after it', async () => {
  const { stream, take } = given();
  stream.push('two');
  stream.begin(['one ']);
  assert.equal(await take(), 'one two');
});

test('a client that takes nothing keeps a bounded queue, and is told what it lost', async () => {
  const { stream, take } = given();
  stream.begin([]);
  const text = 'x'.repeat(1000);
  for (let count = 0; count < (3 * limits.live_queue_chars) / text.length; count += 1) {
    stream.push(text);
  }
  const taken = await take();
  assert.ok(taken.length <= limits.live_queue_chars + 200);
  assert.equal(
    taken.startsWith(eventText({ type: 'reset', data: { why: 'too_slow' } }, null)),
    true,
  );
});

test('a client that waits is told something now and then', async () => {
  const { stream, take } = given();
  stream.begin([]);
  const taken = take();
  await settle();
  stream.beat();
  assert.equal(await taken, ': \n\n');
});

test('one that took nothing for half a minute is hung up on', async () => {
  const { clock, counts, stream } = given();
  stream.begin(['hello']);
  await settle();
  for (let beat = 0; beat < 3; beat += 1) {
    await clock.advance(limits.live_beat_ms);
    stream.beat();
  }
  assert.deepEqual(counts, { ended: 1, hung_up: 1 });
});

test('the end is told once, and the connection ended though nobody takes it', async () => {
  const { clock, counts, stream, reader } = given();
  stream.begin(['hello']);
  stream.end();
  stream.end();
  stream.push('late');
  assert.equal((await reader.read()).done, true);
  await clock.advance(1000);
  assert.deepEqual(counts, { ended: 1, hung_up: 1 });
});

test('a reader that goes away ends it', async () => {
  const { counts, stream, reader } = given();
  stream.begin([]);
  await reader.cancel();
  assert.deepEqual(counts, { ended: 1, hung_up: 0 });
});
