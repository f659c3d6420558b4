/**
 * Connections that are kept between questions, and how long.
 */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { manualClock } from '../../test/lib/upstream.ts';
import type { HttpConnection } from './http-connection.ts';
import { keepConnections } from './kept-connections.ts';

function given(idle_limit = 2) {
  const clock = manualClock();
  const streams: Duplex[] = [];
  const dial = async () => {
    const stream: Duplex = new Duplex({
      read() {},
      write(_chunk, _encoding, done) {
        done();
        stream.push('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
      },
    });
    streams.push(stream);
    return stream;
  };
  return { clock, streams, kept: keepConnections(dial, clock, idle_limit) };
}

function ask(connection: HttpConnection): Promise<void> {
  return new Promise((resolve, reject) =>
    connection.ask(Buffer.from('?'), {
      answered: (answer) => answer.read({ data: () => {}, end: () => resolve() }),
      failed: reject,
    }),
  );
}

test('the one that was used last is used next, and no more than the limit are kept', async () => {
  const { kept, streams } = given();
  assert.equal(kept.takeIdle(), null);
  const [one, two, three] = await Promise.all([kept.open(), kept.open(), kept.open()]);
  assert.ok(one && two && three);
  for (const connection of [one, two, three]) await ask(connection);
  assert.deepEqual(
    streams.map(({ destroyed }) => destroyed),
    [false, false, true],
  );
  assert.deepEqual([kept.takeIdle(), kept.takeIdle(), kept.takeIdle()], [two, one, null]);
});

test('an idle one is closed before four seconds, one that is used meanwhile is not', async () => {
  const { kept, clock, streams } = given();
  const [old, used] = [await kept.open(), await kept.open()];
  await ask(old);
  await ask(used);
  clock.advance(2500);
  assert.equal(kept.takeIdle(), used);
  await ask(used);
  clock.advance(1000);
  assert.equal(streams[0]?.destroyed, true);
  assert.equal(streams[1]?.destroyed, false);
  clock.advance(3000);
  assert.equal(streams[1]?.destroyed, true);
  assert.equal(kept.isEmpty(), true);
});

test('one that the other end closes is not used again', async () => {
  const { kept, streams } = given();
  await ask(await kept.open());
  streams[0]?.push(null);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(kept.takeIdle(), null);
  assert.equal(kept.isEmpty(), true);
});

test('once retired none is kept, and who is busy ends with its question', async () => {
  const { kept, streams } = given();
  const [idle, busy] = [await kept.open(), await kept.open()];
  await ask(idle);
  kept.retire();
  assert.deepEqual(
    streams.map(({ destroyed }) => destroyed),
    [true, false],
  );
  await ask(busy);
  assert.equal(streams[1]?.destroyed, true);
});
