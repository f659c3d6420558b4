/**
 * From what was asked to a complete request.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EinsoraError } from '../contract/errors.ts';
import type { Launch } from '../contract/workloads.ts';
import { completeSpec } from './request-spec.ts';

const mib = 2 ** 20;
const files: Record<string, number> = {
  '/models/small.gguf': 10 * mib,
  '/models/Qwen 3 (Q4).GGUF': 10 * mib,
  '/models/....gguf': 10 * mib,
  '/models/big.gguf': 20 * 1024 * mib,
  '/models/huge.gguf': 200 * 1024 * mib,
};
const ask = (over: Partial<Launch>) =>
  completeSpec({ kind: 'endpoint', ...over }, (path) => files[path] ?? null);

function refused(over: Partial<Launch>): string {
  try {
    ask(over);
  } catch (error) {
    if (error instanceof EinsoraError) return error.code;
    throw error;
  }
  return 'accepted';
}

test('every default is filled in, and said to be one', () => {
  const { spec, defaults, name_is_free } = ask({ model: 'smollm2-135m' });
  assert.deepEqual(
    [spec.name, spec.region, spec.gpu_class, spec.gpu_count],
    ['smollm2-135m', 'local', 'cpu-1c-2g', 0],
  );
  assert.deepEqual(defaults, ['name', 'region', 'accelerator', 'gpu_class']);
  assert.equal(name_is_free, true);
  const named = ask({ model: 'smollm2-135m', name: 'chat', gpu_class: 'cpu-2c-4g' });
  assert.deepEqual(named.defaults, ['region', 'accelerator']);
  assert.equal(named.name_is_free, false);
});

test('the smallest class that holds the model is taken, and each other one told why not', () => {
  const { spec, classes_not_chosen } = ask({ model: '/models/big.gguf' });
  assert.equal(spec.gpu_class, 'cpu-8c-32g');
  assert.equal(classes_not_chosen.length, 4);
  for (const { why } of classes_not_chosen) assert.match(why, /too small/);
});

test('a file gives a name that a workload can have', () => {
  assert.equal(ask({ model: '/models/Qwen 3 (Q4).GGUF' }).spec.name, 'qwen-3-q4');
  assert.equal(ask({ model: 'file:///models/small.gguf' }).spec.name, 'small');
  assert.equal(ask({ model: '/models/....gguf' }).spec.name, 'model');
});

test('a model of a hub is recorded by its pinned name, with its size and a name of its file', () => {
  const source = 'hf://o/r@0123/big-Q4_0-00001-of-00002.gguf';
  const remote = {
    ...{ source, revision: '0123', format: 'gguf' as const, bytes: 20 * 1024 * mib },
    ...{ main: 'big-Q4_0-00001-of-00002.gguf', file_count: 2, repo: 'o/r' },
  };
  const { spec } = completeSpec({ kind: 'endpoint', model: 'hf://o/r' }, () => null, remote);
  assert.deepEqual([spec.model, spec.name, spec.gpu_class], [source, 'big-q4-0', 'cpu-8c-32g']);
});

test('what cannot be is refused early, with its code', () => {
  assert.equal(refused({}), 'bad_request');
  assert.equal(refused({ model: 'nope' }), 'unknown_model');
  assert.equal(refused({ model: '/models/missing.gguf' }), 'unknown_model');
  assert.equal(refused({ model: 's3://bucket/a.gguf' }), 'model_source_unsupported');
  assert.equal(refused({ model: 'hf://owner' }), 'bad_request');
  assert.equal(refused({ model: 'smollm2-135m', gpu_class: 'nope' }), 'unknown_class');
  const small = { model: '/models/big.gguf', gpu_class: 'cpu-1c-2g' };
  assert.equal(refused(small), 'class_too_small');
  assert.equal(refused({ model: '/models/huge.gguf' }), 'class_too_small');
});

test('who names a GPU in any way is given one, who names none has none', () => {
  const facts = (over: Partial<Launch>) => {
    const { accelerator, gpu_class, gpu_count } = ask({ model: 'smollm2-135m', ...over }).spec;
    return [accelerator, gpu_class, gpu_count];
  };
  assert.deepEqual(facts({}), [null, 'cpu-1c-2g', 0]);
  assert.deepEqual(facts({ accelerator: 'cpu' }), ['cpu', 'cpu-1c-2g', 0]);
  assert.deepEqual(facts({ accelerator: 'apple' }), ['apple', 'cpu-1c-2g', 0]);
  for (const over of [
    { accelerator: 'nvidia' as const },
    { gpu_count: 1 },
    { share_device: true },
    { gpu_class: 'nvidia-any' },
    { image_id: 'einsora-vllm' },
    { image_id: 'llama-cpp-cuda' },
  ]) {
    assert.deepEqual(facts(over), ['nvidia', 'nvidia-any', 1], JSON.stringify(over));
  }
  assert.deepEqual(facts({ image_id: 'llama-cpp' }), [null, 'cpu-1c-2g', 0]);
  assert.deepEqual(facts({ gpu_class: 'l40s-48gb', gpu_count: 2 }), ['nvidia', 'l40s-48gb', 2]);
  assert.deepEqual(facts({ gpu_class: 'apple-paravirt' }), ['apple', 'apple-paravirt', 0]);
});

test('a class asks for its model of GPU and what a driver tells of its memory', () => {
  const { spec } = ask({ model: 'smollm2-135m', gpu_class: 'l40s-48gb' });
  assert.deepEqual(
    [spec.gpu_model, spec.gpu_memory_bytes, spec.cpu_millis],
    ['l40s', Math.floor(48 * 1024 * mib * 0.9), 6000],
  );
  const beside = ask({
    ...{ model: 'smollm2-135m', gpu_class: 'l40s-48gb' },
    ...{ cpu_millis: 1000, memory_bytes: 4096 * mib },
  }).spec;
  assert.deepEqual([beside.cpu_millis, beside.memory_bytes], [1000, 4096 * mib]);
});

test('the weights have to fit into the memory of the GPUs together', () => {
  const big = { model: '/models/big.gguf' };
  const { spec } = ask({ ...big, accelerator: 'nvidia' });
  assert.ok(spec.gpu_memory_bytes > 20 * 1024 * mib && spec.memory_bytes < 20 * 1024 * mib);
  assert.equal(ask({ ...big, gpu_class: 'rtx-4090-24gb' }).spec.gpu_class, 'rtx-4090-24gb');
  const huge = { model: '/models/huge.gguf' };
  assert.equal(refused({ ...huge, gpu_class: 'h100-80gb' }), 'class_too_small');
  const four = ask({ ...huge, gpu_class: 'h100-80gb', gpu_count: 4 });
  assert.equal(four.spec.gpu_count, 4);
  const not_chosen = four.classes_not_chosen.map(({ gpu_class }) => gpu_class);
  assert.ok(not_chosen.includes('l40s-48gb') && !not_chosen.includes('cpu-1c-2g'));
});

test('what contradicts itself about GPUs is refused', () => {
  const model = 'smollm2-135m';
  for (const over of [
    { accelerator: 'cpu' as const, gpu_count: 1 },
    { accelerator: 'nvidia' as const, gpu_count: 0 },
    { accelerator: 'cpu' as const, gpu_class: 'l40s-48gb' },
    { accelerator: 'nvidia' as const, gpu_class: 'cpu-1c-2g' },
    { gpu_class: 'cpu-1c-2g', gpu_count: 2 },
    { gpu_count: 2, share_device: true },
    { accelerator: 'cpu' as const, share_device: true },
  ]) {
    assert.equal(refused({ model, ...over }), 'bad_request', JSON.stringify(over));
  }
});
