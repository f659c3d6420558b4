/**
 * The clocks of an SSH connection, in virtual time.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { limits } from '../../contract/limits.ts';
import { createWatch } from './watch.ts';

function watched() {
  const clock = createFakeClock();
  const seen = { is_busy: true, pings: 0, used: 0, expired: [] as string[] };
  const watch = createWatch(clock, {
    isBusy: () => seen.is_busy,
    ping: () => {
      seen.pings += 1;
      if (answers) watch.heard();
    },
    used: () => {
      seen.used += 1;
    },
    expired: (why) => seen.expired.push(why),
  });
  let answers = true;
  const fallSilent = () => {
    answers = false;
  };
  return { clock, seen, watch, fallSilent };
}

test('signing in has its time, and none is counted after it', async () => {
  const late = watched();
  await late.clock.advance(limits.ssh_sign_in_ms);
  assert.deepEqual(late.seen.expired, ['signing in took too long']);
  const { clock, seen, watch } = watched();
  watch.signedIn();
  await clock.advance(limits.ssh_sign_in_ms * 3);
  assert.deepEqual(seen.expired, []);
});

test('a client that answers stays while it uses something, however long', async () => {
  const { clock, seen, watch } = watched();
  watch.signedIn();
  await clock.advance(limits.ssh_idle_ms * 5);
  assert.deepEqual(seen.expired, []);
  assert.ok(seen.pings > 10 && seen.used > 10);
});

test('one that answers and uses nothing is let go, once', async () => {
  const { clock, seen, watch } = watched();
  watch.signedIn();
  seen.is_busy = false;
  await clock.advance(limits.ssh_idle_ms - limits.ssh_keepalive_ms);
  assert.deepEqual(seen.expired, []);
  await clock.advance(limits.ssh_idle_ms);
  assert.deepEqual(seen.expired, ['nothing was open for long']);
});

test('one that does not answer is let go soon', async () => {
  const { clock, seen, watch, fallSilent } = watched();
  watch.signedIn();
  await clock.advance(limits.ssh_keepalive_ms * 5);
  fallSilent();
  await clock.advance(limits.ssh_keepalive_ms * (limits.ssh_unanswered + 3));
  assert.deepEqual(seen.expired, ['the client does not answer']);
  watch.stop();
  assert.equal(clock.waiting(), 0);
});

test('keys may be exchanged often, but not all the time', async () => {
  const { clock, seen, watch } = watched();
  watch.signedIn();
  for (let count = 0; count < limits.ssh_rekeys_per_minute * 1.5; count += 1) {
    watch.rekeyed();
    await clock.advance(Math.ceil(60_000 / limits.ssh_rekeys_per_minute));
  }
  assert.deepEqual(seen.expired, []);
  for (let count = 0; count <= limits.ssh_rekeys_per_minute; count += 1) watch.rekeyed();
  assert.deepEqual(seen.expired, ['keys were exchanged too often']);
});
