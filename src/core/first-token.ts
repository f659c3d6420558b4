/**
 * How long requests wait for the first of their answer: a histogram that can be summed over days,
 * and what it says of a share of them.
 *
 * Invariants: pure; the bounds never change, for histograms are kept; a quantile lies in the bucket
 * of the true one.
 */

/** Upper bounds in milliseconds, each within its bucket; one more bucket is for all above. */
export const first_token_bounds_ms = [
  10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 30_000,
  120_000,
] as const;
export const first_token_buckets = first_token_bounds_ms.length + 1;

export function firstTokenBucket(ms: number): number {
  const found = first_token_bounds_ms.findIndex((bound) => ms <= bound);
  return found === -1 ? first_token_bounds_ms.length : found;
}

/** Milliseconds within which that share of them came; null where none is counted. */
export function firstTokenQuantile(counts: readonly number[], share: number): number | null {
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  const wanted = Math.max(1, Math.ceil(all * share));
  let below = 0;
  for (const [bucket, count] of counts.entries()) {
    if (below + count >= wanted) return within(bucket, (wanted - below) / count);
    below += count;
  }
  return within(counts.length - 1, 1);
}

/** Of those above all bounds nothing more is known than that. */
function within(bucket: number, share: number): number {
  const from = bucket === 0 ? 0 : (first_token_bounds_ms[bucket - 1] ?? 0);
  const to = first_token_bounds_ms[bucket] ?? from;
  return Math.round(from + (to - from) * share);
}
