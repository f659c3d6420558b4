/**
 * Processes: whole output up to a cap, an end by the deadline or an abort, the whole group with it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import { systemClock } from './clock.ts';
import { exec, killGroup, signalName } from './exec.ts';

const sh = (script: string, more: Partial<Parameters<typeof exec>[2]> = {}) =>
  exec('/bin/sh', ['-c', script], { timeout_ms: 60_000, ...more });

test('a command gives its code and what it printed', async () => {
  const result = await sh('echo out; echo err >&2; exit 3');
  assert.deepEqual(result, {
    outcome: 'exited',
    code: 3,
    signal: null,
    stdout: 'out\n',
    stderr: 'err\n',
  });
});

test('a command that is killed says by which signal', async () => {
  const { code, signal } = await sh('kill -9 $$');
  assert.deepEqual([code, signal], [null, 'SIGKILL']);
});

test('a command that is not there is a value', async () => {
  const { outcome, stderr } = await exec('/no/such/program', [], { timeout_ms: 1000 });
  assert.equal(outcome, 'failed');
  assert.match(stderr, /ENOENT/);
});

test('nothing of our environment is inherited, and stdin is closed', async () => {
  const { stdout } = await sh('echo "$HOME|$LC_ALL|$MINE"; cat', { env: { MINE: 'yes' } });
  assert.equal(stdout, '|C|yes\n');
});

test('output is kept up to its cap, and the command still ends', async () => {
  const script = 'i=0; while [ $i -lt 2000 ]; do echo 0123456789; i=$((i+1)); done; exit 5';
  const { stdout, code } = await sh(script, { output_limit_bytes: 100 });
  assert.deepEqual([Buffer.byteLength(stdout), code], [100, 5]);
});

test('at the deadline the whole group is killed, children that ignore signals too', async () => {
  const clock = createFakeClock();
  const script = "trap '' TERM INT HUP; sleep 600 & sleep 600";
  const running = sh(script, { timeout_ms: 1000, clock });
  await settle();
  await clock.advance(1000);
  const { outcome, signal } = await running; // it would wait for the child's end of the pipe
  assert.deepEqual([outcome, signal], ['timeout', 'SIGKILL']);
});

test('an abort kills it, also one that came before', async () => {
  const stop = new AbortController();
  const running = sh('sleep 600', { signal: stop.signal });
  stop.abort();
  assert.equal((await running).outcome, 'aborted');
  const began = systemClock.monotonic();
  assert.equal((await sh('sleep 600', { signal: stop.signal })).outcome, 'aborted');
  assert.ok(systemClock.monotonic() - began < 60_000);
});

test('killing a group that is gone is no error', () => {
  killGroup(undefined, 'SIGKILL');
  killGroup(2 ** 22 + 12345, 'SIGKILL');
});

test('signals have names', () => {
  assert.deepEqual([signalName(9), signalName(15), signalName(999)], ['SIGKILL', 'SIGTERM', null]);
});

test('what is given stands on stdin, and one that does not read it ends all the same', async () => {
  const read = await exec('cat', [], { timeout_ms: 5000, input: 'a secret\n' });
  assert.deepEqual([read.code, read.stdout], [0, 'a secret\n']);
  const deaf = await exec('true', [], { timeout_ms: 5000, input: 'x'.repeat(1024 * 1024) });
  assert.deepEqual([deaf.outcome, deaf.code], ['exited', 0]);
  const none = await exec('cat', [], { timeout_ms: 5000 });
  assert.deepEqual([none.code, none.stdout], [0, '']);
});
