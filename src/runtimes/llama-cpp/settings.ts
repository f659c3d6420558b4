/**
 * With how much of everything llama.cpp serves a model: pure figures from what was asked.
 *
 * Invariants: one thread at least, and never more than the cores asked for; the prompt cache takes
 * only memory that weights, key-value cache and engine leave free under the cap.
 */
import { modelMemoryBytes } from '../../core/catalog.ts';
import { default_parallel } from '../../core/engines.ts';
import type { EngineOrder } from '../runtime.ts';

type Pooling = NonNullable<EngineOrder['pooling']>;

export type Settings = {
  /** Of all slots together. */
  context_tokens: number;
  parallel: number;
  threads: number;
  http_threads: number;
  prompt_cache_mib: number;
  /** Of a model for embeddings or scores. */
  pooling: Pooling | null;
};

/** Per slot. Fits what a class is expected to hold beside the weights; more is for the asking. */
const default_context = 2048;
/** The server keeps whole prompts here; its own default of 8 GiB would burst any small cap. */
const prompt_cache_limit_mib = 1024;
/** Each open answer, and each client that waits, holds one; the health check needs a free one. */
const waiting_clients = 32;

export function settingsFor(order: EngineOrder): Settings {
  const { spec, pooling = null } = order;
  const parallel = spec.parallel ?? default_parallel['llama-server'];
  const context =
    spec.context_length ?? Math.min(default_context, order.trained_context ?? 2 ** 31);
  return {
    context_tokens: context * parallel,
    parallel,
    threads: Math.max(1, Math.floor(spec.cpu_millis / 1000)),
    http_threads: parallel + waiting_clients,
    // Embeddings are worked out anew each time.
    prompt_cache_mib: pooling === null ? promptCacheMib(spec.memory_bytes, order.model_bytes) : 0,
    pooling,
  };
}

/** The settings in words, for the plan and the timeline. */
export function settingsNotes(settings: Settings): string[] {
  const context = settings.context_tokens / settings.parallel;
  return [
    `${settings.parallel} answers at once, ${context} tokens of context each`,
    `${settings.threads} ${settings.threads === 1 ? 'thread' : 'threads'} of the CPU`,
    settings.pooling === null
      ? `${settings.prompt_cache_mib} MiB for remembered prompts`
      : settings.pooling === 'rank'
        ? 'ranks documents'
        : `embeddings (${settings.pooling})`,
  ];
}

/** A quarter of what is left: the buffers of long prompts want the rest. */
function promptCacheMib(memory_bytes: number, model_bytes: number): number {
  const left = memory_bytes - modelMemoryBytes(model_bytes);
  const mib = Math.floor(left / 4 / 2 ** 20);
  return Math.min(prompt_cache_limit_mib, Math.max(0, mib));
}
