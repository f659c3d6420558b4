/**
 * What vLLM is told: a whole command for each order, and never what would run a model's own code.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runtimeFor } from '../core/images.ts';
import type { EngineOrder } from './runtime.ts';
import { vllmCommand, vllmEngine } from './vllm.ts';

const runtime = runtimeFor('endpoint', 'einsora-vllm', 'docker', 'nvidia');
assert.ok(runtime);
const engine = vllmEngine(runtime);

const order = (spec: Partial<EngineOrder['spec']> = {}, trained: number | null = 131_072) => ({
  spec: {
    ...{ kind: 'endpoint' as const, name: 'chat', model: 'hf://o/r', context_length: null },
    ...{ parallel: null, cpu_millis: 8000, memory_bytes: 2 ** 35, gpu_uuids: ['GPU-1'], ...spec },
  },
  ...{ model_path: '/models/r', model_bytes: 2 ** 34, trained_context: trained },
});

const after = (argv: string[], flag: string) => argv[argv.indexOf(flag) + 1];

test('it serves the folder of a model under the name of its endpoint, on a Unix socket', () => {
  const { argv, env, mounts, ports } = vllmCommand(engine, order());
  assert.deepEqual(argv, [
    ...['vllm', 'serve', '/model', '--uds', '/run/einsora/api.sock', '--served-model-name', 'chat'],
    ...['--max-model-len', '8192', '--tensor-parallel-size', '1', '--max-num-seqs', '16'],
    ...['--gpu-memory-utilization', '0.9', '--load-format', 'safetensors'],
    '--no-enable-prefix-caching',
  ]);
  assert.deepEqual(mounts, [{ source: '/models/r', target: '/model', writable: false }]);
  assert.deepEqual(ports, ['api']);
  assert.equal(env.HF_HUB_OFFLINE, '1');
  assert.equal(env.PATH, undefined, "the image's own");
  assert.ok(![...argv, ...Object.keys(env)].some((text) => /trust|remote|host=|port/i.test(text)));
});

test('as many GPUs as the run has work on one model together', () => {
  const { argv, notes } = vllmCommand(engine, order({ gpu_uuids: ['GPU-1', 'GPU-2'] }));
  assert.equal(after(argv, '--tensor-parallel-size'), '2');
  assert.ok(notes.includes('2 GPUs'));
});

test('context and answers at once are what was asked, within what the model was trained for', () => {
  const asked = vllmCommand(engine, order({ context_length: 32_768, parallel: 4 })).argv;
  assert.equal(after(asked, '--max-model-len'), '32768');
  assert.equal(after(asked, '--max-num-seqs'), '4');
  const small = vllmCommand(engine, order({}, 2048)).argv;
  assert.equal(after(small, '--max-model-len'), '2048');
  for (const unknown of [null, 0]) {
    const { argv, notes } = vllmCommand(engine, order({}, unknown));
    assert.ok(!argv.includes('--max-model-len'), 'the model says it itself');
    assert.ok(notes.includes('16 answers at once'));
  }
});

test('of a GPU that is shared it takes half', () => {
  const { argv } = vllmCommand(engine, order({ shares_gpu: true }));
  assert.equal(after(argv, '--gpu-memory-utilization'), '0.45');
});

test('a program that an image names is run as it is named', () => {
  const named = vllmEngine({ ...runtime, command: ['/opt/vllm/bin/vllm', 'serve'] });
  assert.deepEqual(vllmCommand(named, order()).argv.slice(0, 3), [
    ...['/opt/vllm/bin/vllm', 'serve', '/model'],
  ]);
});
