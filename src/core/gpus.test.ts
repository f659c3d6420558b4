import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { GpuRecord } from '../contract/gpus.ts';
import {
  type GpuReasonCode,
  gpuChanges,
  gpuClassName,
  gpuMeanings,
  gpuState,
  gpuUsableBy,
  healthyAccelerators,
  whyUnusable,
} from './gpus.ts';

const gib = 2 ** 30;
const mib = 2 ** 20;

test('classes are named by the model and the size it is sold with', () => {
  const named = (model: string, mebibytes: number) => gpuClassName(model, mebibytes * mib);
  assert.equal(named('NVIDIA L40S', 46068), 'l40s-48gb');
  assert.equal(named('NVIDIA L4', 23034), 'l4-24gb');
  assert.equal(named('Tesla T4', 15360), 't4-16gb');
  assert.equal(named('NVIDIA GeForce RTX 4090', 24564), 'rtx-4090-24gb');
  assert.equal(named('NVIDIA A100-SXM4-40GB', 40960), 'a100-40gb');
  assert.equal(named('NVIDIA A100 80GB PCIe', 81920), 'a100-80gb');
  assert.equal(named('NVIDIA H100 80GB HBM3', 81559), 'h100-80gb');
  assert.equal(named('NVIDIA H200', 143771), 'h200-141gb');
  assert.equal(gpuClassName('NVIDIA L4', 0), null);
  assert.equal(gpuClassName('NVIDIA', 24 * gib), null);
});

test('only a GPU that is well is usable, and the worst reason decides', () => {
  const codes = Object.keys(gpuMeanings) as GpuReasonCode[];
  fc.assert(
    fc.property(fc.subarray(codes), (some) => {
      const usable = gpuUsableBy(some);
      if (gpuState(some) !== 'ok') assert.deepEqual(usable, []);
      for (const driver of usable) {
        assert.ok(!some.some((code) => gpuMeanings[code].hinders.some((one) => one === driver)));
      }
    }),
    { numRuns: 300, seed: 7 },
  );
  assert.equal(gpuState([]), 'ok');
  assert.equal(gpuState(['gpu_busy', 'gpu_memory_error']), 'degraded');
  assert.equal(gpuState(['gpu_tool_silent', 'gpu_lost']), 'missing');
});

test('what changed is a line for each GPU that did', () => {
  const gpu = (uuid: string, state: GpuRecord['state'], code?: string): GpuRecord => ({
    ...{ uuid, pci: `0000:0${uuid}:00.0`, vendor: 'nvidia', model: 'L4', memory_bytes: 1 },
    ...{ unified: false, reserved_bytes: 0, state, usable_by: [], display_attached: false },
    ...{ mig_mode: null, mig_of: null, driver_version: null },
    reasons: code === undefined ? [] : [{ code, message: '', fix: null }],
  });
  const before = [gpu('1', 'ok'), gpu('2', 'ok'), gpu('3', 'ok')];
  const after = [gpu('1', 'missing', 'gpu_lost'), gpu('2', 'ok', 'gpu_display'), gpu('4', 'ok')];
  assert.deepEqual(gpuChanges(before, after), [
    'L4 at 0000:01:00.0: ok, now missing (gpu_lost)',
    'L4 at 0000:04:00.0: new, ok',
    'L4 at 0000:03:00.0: no longer listed',
  ]);
  assert.deepEqual(gpuChanges(before, before), []);
});

test('an accelerator counts only where a healthy GPU stands behind it', () => {
  const claimed = ['cpu', 'nvidia'];
  const gpu = { vendor: 'nvidia', state: 'ok', usable_by: ['docker'] } as const;
  const of = (...gpus: Parameters<typeof healthyAccelerators>[0]['gpus'][number][]) =>
    healthyAccelerators({ accelerators: claimed, gpus });
  const some = { ...gpu, usable_by: ['docker' as const] };
  assert.deepEqual(of(some), claimed);
  assert.deepEqual(of(), ['cpu']);
  assert.deepEqual(of({ ...some, state: 'degraded' }), ['cpu']);
  assert.deepEqual(of({ ...some, usable_by: [] }), ['cpu']);
  assert.deepEqual(of({ ...some, state: 'unhealthy' }, some), claimed);
});

test('what keeps a GPU from every workload is the cause of its state, not what it is beside', () => {
  const reason = (code: string) => ({ code, message: `${code}.`, fix: null });
  const record = (state: string, codes: string[], usable_by: string[] = []) =>
    ({ state, usable_by, reasons: codes.map(reason) }) as unknown as GpuRecord;
  assert.equal(whyUnusable(record('ok', ['gpu_display'], ['docker'])), null);
  assert.equal(whyUnusable(record('busy_owner', ['gpu_display', 'gpu_busy'])), 'gpu_busy.');
  const no_toolkit = record('ok', ['gpu_persistence_off', 'gpu_toolkit_missing']);
  assert.equal(whyUnusable(no_toolkit), 'gpu_toolkit_missing.');
  assert.equal(whyUnusable(record('unknown', [])), null);
});
