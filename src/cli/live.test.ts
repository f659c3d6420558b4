/**
 * Waiting for news: by the stream where there is one, by looking where there is none.
 */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import type { Client } from './client.ts';
import type { Context } from './io.ts';
import { openWatch, type Watch } from './live.ts';

function given(status = 200) {
  const clock = createFakeClock();
  const stream = Object.assign(new PassThrough(), { statusCode: status });
  const client = { stream: async () => stream as unknown as IncomingMessage };
  const context = { io: { clock } } as unknown as Context;
  const watch = openWatch(context, client as unknown as Client, 'mine');
  const say = async (data: object) => {
    stream.write(`event: workload\ndata: ${JSON.stringify(data)}\n\n`);
    await settle();
  };
  return { clock, stream, watch, say };
}

/** Begins to wait, and says whether that is over. */
function begin(watch: Watch, ms = 60_000) {
  const state = { over: false };
  void watch.wait(ms, new AbortController().signal).then(() => {
    state.over = true;
  });
  return state;
}

test('news of one’s own ends the wait at once, news of others does not', async () => {
  const { watch, say } = given();
  await say({ store_uuid: 'u' });
  await watch.wait(60_000, new AbortController().signal);
  const waiting = begin(watch);
  await say({ workload_id: 'other' });
  assert.equal(waiting.over, false);
  await say({ workload_id: 'mine' });
  assert.equal(waiting.over, true);
});

test('without a word a look is taken now and then', async () => {
  const { clock, watch, say } = given();
  await say({ store_uuid: 'u' });
  await watch.wait(60_000, new AbortController().signal);
  const waiting = begin(watch);
  await clock.advance(4999);
  assert.equal(waiting.over, false);
  await clock.advance(1);
  assert.equal(waiting.over, true);
});

test('before the stream speaks, and after it ended, one looks again and again', async () => {
  const { clock, stream, watch, say } = given();
  const first = begin(watch);
  await clock.advance(250);
  assert.equal(first.over, true);
  await say({ store_uuid: 'u' });
  stream.end();
  await settle();
  const last = begin(watch);
  await clock.advance(250);
  assert.equal(last.over, true);
});

test('a control plane without live events is looked at as before', async () => {
  const { clock, stream, watch } = given(404);
  await settle();
  assert.equal(stream.destroyed, true);
  const waiting = begin(watch);
  await clock.advance(250);
  assert.equal(waiting.over, true);
});

test('who stops waiting waits no longer', async () => {
  const { watch, say } = given();
  await say({ store_uuid: 'u' });
  await watch.wait(1, new AbortController().signal);
  const stop = new AbortController();
  const over = watch.wait(60_000, stop.signal);
  stop.abort();
  await over;
  watch.close();
});
