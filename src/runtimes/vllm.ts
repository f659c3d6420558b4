/**
 * vLLM in an image: the command that serves one safetensors model on the run's GPUs.
 *
 * Invariants: pure; code that comes with a model never runs (`--trust-remote-code` stands nowhere);
 * it listens on the run's Unix socket and asks nothing of the internet; what one user asked before
 * is not kept for the next one; only the endpoint's name, sizes and paths stand in the argv.
 */
import { default_parallel } from '../core/engines.ts';
import type { ImageRuntime } from '../core/images.ts';
import type { Engine, EngineCommand, EngineOrder } from './runtime.ts';

const socket = '/run/einsora/api.sock';
const model_folder = '/model';
/** Of a model that was trained for more: the rest of the memory is for answers at once. */
const default_context = 8192;
/** Of the whole memory of a GPU, counted by vLLM itself; of one that others share, half of that. */
const memory_share = 0.9;

export function vllmEngine({ reference, command }: ImageRuntime): Engine {
  return {
    label: `vLLM of ${reference}`,
    dialect: 'vllm',
    program: command.length > 0 ? [...command] : ['vllm', 'serve'],
    mounts: [],
    flags: [],
    on_gpu: true,
  };
}

export function vllmCommand(engine: Engine, order: EngineOrder): EngineCommand {
  const { spec, model_path, trained_context } = order;
  const gpus = Math.max(1, spec.gpu_uuids?.length ?? 1);
  const trained = trained_context === null || trained_context <= 0 ? null : trained_context;
  const context =
    spec.context_length ?? (trained === null ? null : Math.min(default_context, trained));
  const parallel = spec.parallel ?? default_parallel.vllm;
  const share = spec.shares_gpu === true ? memory_share / 2 : memory_share;
  return {
    argv: [
      ...[...engine.program, model_folder, '--uds', socket, '--served-model-name', spec.name],
      ...(context === null ? [] : ['--max-model-len', String(context)]),
      ...['--tensor-parallel-size', String(gpus), '--max-num-seqs', String(parallel)],
      ...['--gpu-memory-utilization', String(share), '--load-format', 'safetensors'],
      // Who comes next must not learn by its speed what was asked before.
      '--no-enable-prefix-caching',
    ],
    env,
    mounts: [{ source: model_path, target: model_folder, writable: false }],
    ports: ['api'],
    notes: [
      engine.label,
      gpus === 1 ? '1 GPU' : `${gpus} GPUs`,
      `${parallel} answers at once${context === null ? '' : `, ${context} tokens of context each`}`,
      `${Math.round(share * 100)} % of the memory of each GPU`,
    ],
  };
}

/** The image's own PATH stays: its CUDA and its Python are found by it. */
const env: Record<string, string> = {
  HOME: '/tmp',
  // Of a user that the image need not know.
  USER: 'einsora',
  HF_HUB_OFFLINE: '1',
  TRANSFORMERS_OFFLINE: '1',
  VLLM_NO_USAGE_STATS: '1',
  DO_NOT_TRACK: '1',
  // Its processes meet inside the run, which has no other address.
  VLLM_HOST_IP: '127.0.0.1',
};
