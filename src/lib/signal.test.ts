/**
 * Wake-ups: none is lost, a thousand wake once, and a newer waiter keeps its own.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import { createSignal } from './signal.ts';

function waiting(work: Promise<void>) {
  const state = { over: false };
  void work.then(() => {
    state.over = true;
  });
  return state;
}

test('a signal wakes who waits, at once', async () => {
  const [clock, signal] = [createFakeClock(), createSignal()];
  const one = waiting(signal.wait(clock, 1000));
  await settle();
  assert.equal(one.over, false);
  signal.notify();
  await settle();
  assert.equal(one.over, true);
  assert.equal(clock.waiting(), 0, 'no timer stays behind');
});

test('a signal between two waits is not lost, and a thousand of them are one', async () => {
  const [clock, signal] = [createFakeClock(), createSignal()];
  for (let count = 0; count < 1000; count += 1) signal.notify();
  await signal.wait(clock, 1000);
  const second = waiting(signal.wait(clock, 1000));
  await settle();
  assert.equal(second.over, false);
  await clock.advance(1000);
  assert.equal(second.over, true);
});

test('a wait ends by its time, by an abort, and at once where it was called off', async () => {
  const [clock, signal] = [createFakeClock(), createSignal()];
  const timed = waiting(signal.wait(clock, 500));
  await clock.advance(499);
  assert.equal(timed.over, false);
  await clock.advance(1);
  assert.equal(timed.over, true);
  const stop = new AbortController();
  const stopped = waiting(signal.wait(clock, 500, stop.signal));
  await settle();
  stop.abort();
  await settle();
  assert.equal(stopped.over, true);
  await signal.wait(clock, 500, stop.signal);
});

test('who asks to be called at the next signal is called once, and not once it was called off', async () => {
  const [clock, signal] = [createFakeClock(), createSignal()];
  const called: string[] = [];
  signal.notify();
  signal.next(clock, 1000, () => called.push('it came before'));
  assert.deepEqual(called.splice(0), ['it came before']);
  signal.next(clock, 1000, () => called.push('signal'));
  signal.notify();
  signal.notify();
  assert.deepEqual(called.splice(0), ['signal']);
  signal.next(clock, 500, () => called.push('the second signal'));
  assert.deepEqual(called.splice(0), ['the second signal']);
  signal.next(clock, 500, () => called.push('called off'))();
  assert.equal(clock.waiting(), 0, 'no timer stays behind');
  signal.next(clock, 500, () => called.push('time'));
  await clock.advance(500);
  assert.deepEqual(called, ['time']);
});

test('a wait that ends leaves the wake-up of a newer one alone', async () => {
  const [clock, signal] = [createFakeClock(), createSignal()];
  const stop = new AbortController();
  const older = waiting(signal.wait(clock, 1000, stop.signal));
  await settle();
  const newer = waiting(signal.wait(clock, 1000));
  await settle();
  stop.abort();
  await settle();
  assert.deepEqual([older.over, newer.over], [true, false]);
  signal.notify();
  await settle();
  assert.equal(newer.over, true);
});
