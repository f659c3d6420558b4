/**
 * What the metrics of an engine say of its work: whether it gets on, and whether anything waits.
 *
 * Invariants: pure; a page that has none of the counters says nothing, which is not "no progress".
 */

export type EngineProgress = {
  /** Rises with each step of work: a part of a prompt, or one token for each answer. */
  steps: number;
  /** Requests that it works on or keeps waiting. */
  open: number;
};

/** Of llama-server and of vLLM; each has its own, under names that do not meet. */
const step_counters = [
  'llamacpp:n_decode_total',
  'vllm:iteration_tokens_total_count',
  'vllm:prompt_tokens_total',
  'vllm:generation_tokens_total',
];
const open_gauges = [
  'llamacpp:requests_processing',
  'llamacpp:requests_deferred',
  'vllm:num_requests_running',
  'vllm:num_requests_waiting',
];

/** Null where the text has no counter of steps. */
export function progressIn(metrics: string): EngineProgress | null {
  let steps: number | null = null;
  let open = 0;
  for (const line of metrics.split('\n')) {
    const [, name = '', value = ''] = /^([\w:]+)(?:\{.*\})?\s+(\S+)/.exec(line) ?? [];
    const amount = Number(value);
    if (!Number.isFinite(amount)) continue;
    if (step_counters.includes(name)) steps = (steps ?? 0) + amount;
    if (open_gauges.includes(name)) open += amount;
  }
  return steps === null ? null : { steps, open };
}
