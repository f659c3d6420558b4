/**
 * What nvidia-smi tells of GPUs in use, as its manual documents it; and what is made of silence.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import type { ExecResult } from '../lib/exec.ts';
import { createGpuUse, parseUse } from './gpu-use.ts';

const gib = 2 ** 30;

test('a line for each GPU, with figures where there are any', () => {
  const told = parseUse(
    [
      'GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77, 37, 2048',
      'GPU-1, 100, 81920',
      'GPU-2, [N/A], 512',
      'GPU-3, [Unknown Error], [Unknown Error]',
      'GPU-4, ERR!, 0',
      'Unable to determine the device handle for GPU0000:01:00.0: Unknown Error',
      'GPU-5, 1, 2, 3',
      '',
    ].join('\r\n'),
  );
  assert.deepEqual(
    [...told],
    [
      ['GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77', { busy_percent: 37, memory_bytes: 2 * gib }],
      ['GPU-1', { busy_percent: 100, memory_bytes: 80 * gib }],
      ['GPU-2', { busy_percent: null, memory_bytes: gib / 2 }],
      ['GPU-3', { busy_percent: null, memory_bytes: null }],
      ['GPU-4', { busy_percent: null, memory_bytes: 0 }],
    ],
  );
  for (const none of ['', 'No devices were found\n', 'Failed to initialize NVML: x\n']) {
    assert.equal(parseUse(none).size, 0);
  }
});

function rig(answer: () => Promise<Partial<ExecResult>>) {
  const clock = createFakeClock();
  let asked = 0;
  const whole = { outcome: 'exited', code: 0, signal: null, stdout: '', stderr: '' } as const;
  const run = async () => {
    asked += 1;
    return { ...whole, ...(await answer()) };
  };
  return { clock, use: createGpuUse({ run }, clock), asked: () => asked };
}

const busy = { busy_percent: 50, memory_bytes: gib };
const unknown = { busy_percent: null, memory_bytes: null };

test('whoever asks in one round is told of one look, and of theirs alone', async () => {
  const { clock, use, asked } = rig(async () => ({ stdout: 'GPU-1, 50, 1024\nGPU-2, 1, 1\n' }));
  const both = await Promise.all([use(['GPU-1']), use(['GPU-1', 'GPU-9'])]);
  assert.deepEqual(both, [
    [{ uuid: 'GPU-1', ...busy }],
    [
      { uuid: 'GPU-1', ...busy },
      { uuid: 'GPU-9', ...unknown },
    ],
  ]);
  await use(['GPU-2']);
  assert.equal(asked(), 1);
  await clock.advance(5_000);
  await use(['GPU-2']);
  assert.equal(asked(), 2);
});

test('a tool that hangs holds nobody up, and what is old is not told as new', async () => {
  let hangs = false;
  const { clock, use, asked } = rig(() =>
    hangs ? new Promise(() => {}) : Promise.resolve({ stdout: 'GPU-1, 50, 1024\n' }),
  );
  assert.deepEqual(await use(['GPU-1']), [{ uuid: 'GPU-1', ...busy }]);
  hangs = true;
  await clock.advance(10_000);
  const waiting = use(['GPU-1']);
  await settle();
  await clock.advance(2_000);
  assert.deepEqual(await waiting, [{ uuid: 'GPU-1', ...busy }], 'a moment ago it was so');
  await clock.advance(10_000);
  const later = use(['GPU-1']);
  await settle();
  await clock.advance(2_000);
  assert.deepEqual(await later, [{ uuid: 'GPU-1', ...unknown }]);
  assert.equal(asked(), 2, 'one at a time');
});

test('a tool that is missing or fails tells nothing', async () => {
  for (const failing of [{ outcome: 'failed' }, { outcome: 'timeout' }] as const) {
    const { use } = rig(async () => failing);
    assert.deepEqual(await use(['GPU-1']), [{ uuid: 'GPU-1', ...unknown }]);
  }
});
