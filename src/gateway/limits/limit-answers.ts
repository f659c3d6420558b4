/**
 * What a client reads of limits: OpenAI's headers and its shape of a refusal.
 *
 * Invariants: `Retry-After` and `retry-after-ms` say the first moment at which the request would be
 * admitted, of what is known; headers are of the tightest of the limits, and never below zero; what
 * can never fit is no 429, which clients would repeat for ever.
 */
import type { RequestLimitName } from '../../core/request-limits.ts';
import type { Refusal } from '../errors.ts';
import { leftOf, type Over, type Part, resetsIn, type Tally } from './tally.ts';

export type Blocked = Over & { part: Part };

const types: Record<RequestLimitName, string> = {
  rpm: 'requests',
  tpm: 'tokens',
  concurrency: 'concurrency',
};

export function refusalOfLimit(
  { what, limit, wait_ms, part }: Blocked,
  tokens: number,
  parts: readonly Part[],
  now_ms: number,
): Refusal {
  const whose = `The limit of ${whoseWords(part)} is ${limitWords(what, limit)}`;
  if (wait_ms === null) {
    const message = `${whose}, and this request may use ${tokens}: its prompt and \`max_tokens\`.`;
    return { status: 400, message, code: 'tokens_over_limit', param: 'max_tokens' };
  }
  const wait = Math.max(1, Math.ceil(wait_ms));
  return {
    status: 429,
    message: `${whose}. Try again in ${durationWords(wait)}.`,
    type: types[what],
    code: 'rate_limit_exceeded',
    ...retryIn(wait),
    headers: { ...limitHeaders(parts, now_ms), 'Retry-After-Ms': String(wait) },
  };
}

function retryIn(wait_ms: number): { retry_after_s: number } {
  return { retry_after_s: Math.ceil(wait_ms / 1000) };
}

function whoseWords({ kind, name }: Part): string {
  if (kind === 'model') return `the model \`${name}\` over all who ask it`;
  return kind === 'key' ? 'this key' : "this key's user over all keys";
}

function limitWords(what: RequestLimitName, limit: number): string {
  if (what === 'rpm') return `${limit} requests a minute`;
  return what === 'tpm' ? `${limit} tokens a minute` : `${limit} requests at a time`;
}

const sorts = [
  ['rpm', 'requests'],
  ['tpm', 'tokens'],
] as const;

/** x-ratelimit-* of what is limited; of several limits the one with the least left. */
export function limitHeaders(parts: readonly Part[], now_ms: number): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, sort] of sorts) {
    let tightest: { limit: number; left: number; tally: Tally } | null = null;
    for (const { limits, tally } of parts) {
      const limit = limits[name];
      if (limit === null) continue;
      const left = leftOf(tally, sort, limit, now_ms);
      if (tightest === null || left < tightest.left) tightest = { limit, left, tally };
    }
    if (tightest === null) continue;
    headers[`x-ratelimit-limit-${sort}`] = String(tightest.limit);
    headers[`x-ratelimit-remaining-${sort}`] = String(tightest.left);
    headers[`x-ratelimit-reset-${sort}`] = durationWords(resetsIn(tightest.tally, sort, now_ms));
  }
  return headers;
}

/** As OpenAI writes it: 120ms, 8.64s, 1m0s. */
export function durationWords(ms: number): string {
  const whole = Math.ceil(ms);
  if (whole < 1000) return `${whole}ms`;
  if (whole < 60_000) return `${whole / 1000}s`;
  const minutes = Math.floor(whole / 60_000);
  return `${minutes}m${(whole - minutes * 60_000) / 1000}s`;
}
