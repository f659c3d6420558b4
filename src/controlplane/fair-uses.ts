/**
 * What everybody used lately, from the ledger, as fair share counts it: metered seconds times the
 * weight that its class had when it was placed, each second half as much seven days later.
 *
 * Invariants: the ledger is read page by page, and no more often than a small part of the time
 * allows; whoever asks meanwhile gets the last answer; what is older than five half-lives counts
 * nothing.
 */
import { findClass } from '../core/catalog.ts';
import { decayed, half_life_ms, type Use } from '../core/fair-share.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { createSlices } from '../lib/slices.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { meteredSince, openMetered, type UsedEntry } from '../store/usage.ts';

const page_rows = 1000;
const slice_ms = 3;
const fresh_ms = 60_000;
/** A reading that took so long is not repeated before this many times as long has passed. */
const rest_factor = 100;
const reach_ms = 5 * half_life_ms;

export type UsesDeps = { store: EinsoraStore; clock: Clock; log: Log };

export function createFairUses(deps: UsesDeps): () => Promise<readonly Use[]> {
  let last: readonly Use[] | null = null;
  let next_at = 0;
  let reading: Promise<void> | null = null;

  async function read(): Promise<void> {
    const began = deps.clock.monotonic();
    last = await readUses(deps);
    const ended = deps.clock.monotonic();
    next_at = ended + Math.max(fresh_ms, (ended - began) * rest_factor);
  }

  return async () => {
    if (reading === null && (last === null || deps.clock.monotonic() >= next_at)) {
      reading = read()
        .catch((error: unknown) => {
          deps.log.warn({ error: describeError(error) }, 'usage could not be read for fair share');
        })
        .finally(() => {
          reading = null;
        });
    }
    if (last === null && reading !== null) await reading;
    return last ?? [];
  };
}

async function readUses({ store, clock }: UsesDeps): Promise<Use[]> {
  const at = { now: clock.now(), mono: clock.monotonic() };
  const slices = createSlices(clock, slice_ms);
  const sums = new Map<string, Use>();
  const add = (entry: UsedEntry) => {
    const { tenant_id, user_id } = entry;
    const key = `${tenant_id} ${user_id}`;
    const use = sums.get(key) ?? { tenant_id, user_id, weighted_s: 0 };
    use.weighted_s += weightedSeconds(entry, at.now);
    sums.set(key, use);
  };
  let after = { ended_at: at.now - reach_ms, id: '' };
  for (;;) {
    const page = await store.read(meteredSince, { after, limit: page_rows });
    for (const entry of page) add(entry);
    const end = page.at(-1);
    if (end === undefined || page.length < page_rows) break;
    after = end;
    if (slices.isOver()) await slices.rest();
  }
  for (let id = ''; ; ) {
    const page = await store.read(openMetered, { after: id, limit: page_rows, at });
    for (const entry of page) add(entry);
    const end = page.at(-1);
    if (end === undefined || page.length < page_rows) return [...sums.values()];
    id = end.id;
    if (slices.isOver()) await slices.rest();
  }
}

/** Every second of an entry by its own age: the integral of the decay over its length. */
export function weightedSeconds(
  entry: Pick<UsedEntry, 'sign' | 'placed_class' | 'started_at' | 'ended_at'> &
    Partial<Pick<UsedEntry, 'weight_millis'>>,
  now: number,
): number {
  // What is older than weights of operators weighs as what came with Einsora did.
  const { weight_millis = 0 } = entry;
  const weight =
    weight_millis > 0 ? weight_millis / 1000 : (findClass(entry.placed_class)?.weight ?? 1);
  const worth = (at: number) => decayed(1, now - at);
  const decayed_ms = (half_life_ms / Math.LN2) * (worth(entry.ended_at) - worth(entry.started_at));
  return (entry.sign * weight * decayed_ms) / 1000;
}
