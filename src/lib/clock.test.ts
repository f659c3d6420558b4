/**
 * The real clock, and deadlines on a fake one.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { systemClock, withDeadline } from './clock.ts';

test('the monotonic clock never goes back', () => {
  let last = systemClock.monotonic();
  for (let count = 0; count < 1000; count += 1) {
    const now = systemClock.monotonic();
    assert.ok(now >= last);
    last = now;
  }
});

test('a sleep ends at once when it is called off, before or meanwhile', async () => {
  const stop = new AbortController();
  const began = systemClock.monotonic();
  const sleeping = systemClock.sleep(600_000, stop.signal);
  stop.abort();
  await sleeping;
  await systemClock.sleep(600_000, stop.signal);
  assert.ok(systemClock.monotonic() - began < 60_000);
});

test('what is called off does not happen', async () => {
  let happened = false;
  const cancel = systemClock.after(0, () => {
    happened = true;
  });
  cancel();
  await systemClock.sleep(5);
  assert.equal(happened, false);
});

test('a deadline gives the result of work that is in time', async () => {
  const clock = createFakeClock();
  assert.equal(await withDeadline(clock, 100, 'late', Promise.resolve(7)), 7);
  await assert.rejects(withDeadline(clock, 100, 'late', Promise.reject(new Error('no'))), /no/);
  assert.equal(clock.waiting(), 0);
});

test('a deadline ends the wait for work that is not', async () => {
  const clock = createFakeClock();
  const late = assert.rejects(withDeadline(clock, 100, 'too late', new Promise(() => {})), {
    message: 'too late',
  });
  await clock.advance(100);
  await late;
});
