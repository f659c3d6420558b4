/**
 * What an engine says that an answer used, in every shape in which engines say it: `usage` of chat
 * and completions, `usage` inside a response, `usage` of embeddings and rerank without an answer,
 * llama-server's `timings`.
 *
 * Invariants: what is no count is none: null, a text, a negative number. Nothing is guessed here.
 */
import { type Fields, isFields } from '../whole/fields.ts';

/** Tokens. */
export type ReportedUse = {
  prompt_tokens: number;
  completion_tokens: number;
  /** Of the prompt, those that the engine had already. */
  cached_tokens: number;
};

/** The usage of a chunk or of a whole answer, in the engine's own words; null where it has none. */
export function usageOf({ usage, response, timings }: Fields): Fields | null {
  if (isFields(usage)) return usage;
  if (isFields(response) && isFields(response.usage)) return response.usage;
  return isFields(timings) ? usageOfTimings(timings) : null;
}

/** llama-server tells them at the end of every answer, asked or not. */
function usageOfTimings({ cache_n, prompt_n, predicted_n }: Fields): Fields | null {
  const [cached_tokens, fresh, completion_tokens] = [cache_n, prompt_n, predicted_n].map(countOf);
  if (fresh === undefined || completion_tokens === undefined) return null;
  const prompt_tokens = fresh + (cached_tokens ?? 0);
  return {
    ...{ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    prompt_tokens_details: { cached_tokens: cached_tokens ?? 0 },
  };
}

/** The counts of a usage; null where it tells none. */
export function readUsage(usage: Fields): ReportedUse | null {
  const completion = countOf(usage.completion_tokens) ?? countOf(usage.output_tokens);
  const total = countOf(usage.total_tokens);
  // Of a list that was ranked some tell the total alone.
  const rest = total === undefined ? undefined : Math.max(0, total - (completion ?? 0));
  const prompt = countOf(usage.prompt_tokens) ?? countOf(usage.input_tokens) ?? rest;
  if (prompt === undefined) return null;
  const details = usage.prompt_tokens_details ?? usage.input_tokens_details;
  const cached = isFields(details) ? countOf(details.cached_tokens) : undefined;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion ?? 0,
    cached_tokens: Math.min(prompt, cached ?? 0),
  };
}

function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : undefined;
}
