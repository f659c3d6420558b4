/**
 * A record as a row of the store.
 *
 * Invariants: whatever a client or an engine said, the row can be stored: names are bounded and
 * plain text, amounts are whole and no less than nothing.
 */
import { limits } from '../../contract/limits.ts';
import { plainText } from '../../lib/text.ts';
import type { RequestRow } from '../../store/requests.ts';
import type { RequestRecord } from '../request-record.ts';

export function rowOfRecord(record: RequestRecord): RequestRow {
  const { request_id, key_id, tenant_id, user_id, workload_id, machine_id, placed_class } = record;
  const { run, use, api, outcome, code, first_token_ms } = record;
  return {
    ...{ request_id, at: record.at, key_id, tenant_id, user_id, workload_id, machine_id },
    ...{ replica: run?.replica ?? null, run_epoch: run?.run_epoch ?? null, placed_class },
    ...{ model: nameOf(record.model), api, is_stream: record.is_stream ? 1 : 0, outcome },
    ...{ status: record.status, code: code === null ? null : nameOf(code) },
    attempts: amount(record.attempts),
    prompt_tokens: amount(use.prompt_tokens),
    completion_tokens: amount(use.completion_tokens),
    cached_tokens: amount(use.cached_tokens),
    is_estimated: use.is_estimated ? 1 : 0,
    waited_ms: amount(record.waited_ms),
    first_token_ms: first_token_ms === null ? null : amount(first_token_ms),
    duration_ms: amount(record.duration_ms),
  };
}

/** No more than is needed to know it again. */
export function nameOf(text: string): string {
  return plainText(text.slice(0, limits.recorded_model_chars)).toWellFormed();
}

function amount(value: number): number {
  if (!(value > 0)) return 0;
  return Math.min(Math.round(value), Number.MAX_SAFE_INTEGER);
}
