/**
 * What the gateway did in the last minute, by key and model: for `gateway top`.
 *
 * Invariants: nothing is kept longer than the window; a bounded number of pairs in each slice of
 * it, what is beyond is not shown; amounts count when their request has ended.
 */
import { limits } from '../../contract/limits.ts';
import { first_token_buckets, firstTokenBucket } from '../../core/first-token.ts';
import type { Clock } from '../../lib/clock.ts';
import type { RequestRecord } from '../request-record.ts';
import { nameOf } from './rows.ts';

export type LiveSums = {
  requests: number;
  /** Refused or cut. */
  errors: number;
  prompt_tokens: number;
  completion_tokens: number;
  /** Of first tokens, as in core/first-token.ts. */
  firsts: number[];
};
export type LiveRow = LiveSums & {
  key_id: string;
  /** Null where the name led nowhere. */
  workload_id: string | null;
  model: string;
};

export type LiveTally = {
  add(record: RequestRecord): void;
  /** One for each key and model, of the last `window_ms`. */
  rows(): LiveRow[];
  /** How long it counts by now: the window, or less after a start. */
  window_ms(): number;
};

type Slice = { number: number; rows: Map<string, LiveRow> };

export const live_window_ms = 60_000;
const slice_ms = 5000;
const slices_kept = live_window_ms / slice_ms;

export function createLiveTally(clock: Pick<Clock, 'monotonic'>): LiveTally {
  const began_at = clock.monotonic();
  let slices: Slice[] = [];

  /** Drops what is older than the window. */
  function turn(): number {
    const number = Math.floor(clock.monotonic() / slice_ms);
    if (slices[0] !== undefined && slices[0].number <= number - slices_kept) {
      slices = slices.filter((slice) => slice.number > number - slices_kept);
    }
    return number;
  }

  function current(): Slice {
    const number = turn();
    const last = slices.at(-1);
    if (last?.number === number) return last;
    const fresh: Slice = { number, rows: new Map() };
    slices.push(fresh);
    return fresh;
  }

  return {
    add(record) {
      const { rows } = current();
      const { key_id, workload_id } = record;
      const name = workload_id === null ? key_id : `${key_id} ${workload_id} ${record.model}`;
      let row = rows.get(name);
      if (row === undefined) {
        if (rows.size >= limits.live_pairs) return;
        row = emptyRow(record);
        rows.set(name, row);
      }
      count(row, record);
      if (record.first_token_ms === null) return;
      const bucket = firstTokenBucket(record.first_token_ms);
      row.firsts[bucket] = (row.firsts[bucket] ?? 0) + 1;
    },
    rows() {
      turn();
      const all = new Map<string, LiveRow>();
      for (const { rows } of slices) {
        for (const [name, row] of rows) {
          const sum = all.get(name) ?? emptyRow(row);
          addSums(sum, row);
          all.set(name, sum);
        }
      }
      return [...all.values()];
    },
    window_ms: () => Math.max(1000, Math.min(live_window_ms, clock.monotonic() - began_at)),
  };
}

export function noSums(): LiveSums {
  const firsts = new Array<number>(first_token_buckets).fill(0);
  return { requests: 0, errors: 0, prompt_tokens: 0, completion_tokens: 0, firsts };
}

export function addSums(to: LiveSums, more: LiveSums): void {
  to.requests += more.requests;
  to.errors += more.errors;
  to.prompt_tokens += more.prompt_tokens;
  to.completion_tokens += more.completion_tokens;
  for (const [bucket, count] of more.firsts.entries()) {
    to.firsts[bucket] = (to.firsts[bucket] ?? 0) + count;
  }
}

function emptyRow(of: Pick<LiveRow, 'key_id' | 'workload_id' | 'model'>): LiveRow {
  const { key_id, workload_id, model } = of;
  return { ...noSums(), key_id, workload_id, model: workload_id === null ? '' : nameOf(model) };
}

function count(row: LiveSums, { outcome, use }: RequestRecord): void {
  row.requests += 1;
  if (outcome === 'refused' || outcome === 'cut') row.errors += 1;
  row.prompt_tokens += use.prompt_tokens;
  row.completion_tokens += use.completion_tokens;
}
