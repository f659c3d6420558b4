import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../../test/lib/fake-clock.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { type ExecResult, exec } from '../../lib/exec.ts';
import { result } from './fixture-machine.ts';
import { createToolRunner } from './tool-runner.ts';

test('a tool that cannot be ended is not waited for, and not begun again until it is over', async () => {
  const clock = createFakeClock();
  const ends: ((answer: ExecResult) => void)[] = [];
  const run = createToolRunner(() => new Promise((resolve) => ends.push(resolve)), clock);
  const ask = (command: string) => run(command, [], { timeout_ms: 1000 });
  const first = ask('nvidia-smi');
  await clock.advance(3000);
  assert.equal((await first).outcome, 'timeout');
  assert.equal((await ask('nvidia-smi')).outcome, 'timeout');
  assert.equal(ends.length, 1);
  const other = ask('journalctl');
  ends[1]?.(result({ stdout: 'fine' }));
  assert.equal((await other).stdout, 'fine');
  ends[0]?.(result({ outcome: 'timeout' }));
  await settle();
  const again = ask('nvidia-smi');
  ends[2]?.(result({ stdout: 'back' }));
  assert.equal((await again).stdout, 'back');
});

test('a real program that got out of its group and holds the output is left to itself', async () => {
  const script = 'setsid sleep 5 & wait';
  const hasty: Clock = { ...systemClock, after: (ms, fn) => systemClock.after(ms / 20, fn) };
  const run = createToolRunner(exec, hasty);
  const began = systemClock.monotonic();
  const answer = await run('sh', ['-c', script], { timeout_ms: 300 });
  assert.equal(answer.outcome, 'timeout');
  assert.ok(systemClock.monotonic() - began < 10_000);
});

test('what cannot be run at all is told', async () => {
  const clock = createFakeClock();
  const broken = createToolRunner(
    async () => Promise.reject(new Error('no processes left')),
    clock,
  );
  await assert.rejects(broken('nvidia-smi', [], { timeout_ms: 1000 }), /no processes left/);
});
