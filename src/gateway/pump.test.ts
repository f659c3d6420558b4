/**
 * An answer on its way into a sink, when all is over before it began.
 */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import type { HttpAnswer } from '../lib/http-connection.ts';
import { createDeadlines } from './deadlines.ts';
import { pump } from './pump.ts';
import { createStop } from './stop.ts';

test('an answer that comes when its client has left is destroyed, and nothing listens on', async () => {
  const clock = createFakeClock();
  const stop = createStop();
  stop.now('client_left');
  const response = new PassThrough() as unknown as ServerResponse;
  const heard = response.listenerCount('drain');
  let destroyed = 0;
  const answer: HttpAnswer = {
    ...{ status: 200, headers: new Map() },
    read: () => assert.fail('nobody reads it'),
    isOver: () => false,
    ...{ pause() {}, resume() {} },
    destroy() {
      destroyed += 1;
    },
  };
  const sink = { take: () => assert.fail(), ended: () => assert.fail() };
  const deadlines = createDeadlines(clock);
  const ending = await pump(answer, sink, { stop, deadlines, response, clock });
  assert.deepEqual([ending, destroyed], [{ is: 'stopped' }, 1]);
  assert.equal(response.listenerCount('drain'), heard);
  deadlines.stop();
});
