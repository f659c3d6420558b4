/**
 * Sums the ledger for a report, page by page, so that a long history holds nobody up.
 *
 * Invariants: each entry counts once; between two pages others get their turn.
 */
import { createTally, type UsageGroup, type UsageTally } from '../core/usage.ts';
import type { Clock } from '../lib/clock.ts';
import { createSlices } from '../lib/slices.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { closedEntries, type Entry, openEntries } from '../store/usage.ts';

const page_rows = 500;
const slice_ms = 3;

export type ReportArgs = {
  tenant_id: string;
  /** Of this user alone; null for all of the tenant. */
  user_id: string | null;
  from: number;
  to: number;
  group_by: UsageGroup;
};

export async function tallyUsage(
  { store, clock }: { store: EinsoraStore; clock: Clock },
  args: ReportArgs,
): Promise<UsageTally> {
  const tally = createTally(args, args.group_by);
  const slices = createSlices(clock, slice_ms);
  const at = { now: clock.now(), mono: clock.monotonic() };
  const asked = { ...args, limit: page_rows };
  const seen = new Set<string>();
  let after = '';
  for (;;) {
    const page = await store.read(openEntries, { ...asked, after, at });
    for (const entry of page) {
      seen.add(entry.id);
      tally.add(entry);
    }
    after = page.at(-1)?.id ?? '';
    if (page.length < page_rows) break;
    if (slices.isOver()) await slices.rest();
  }
  let last: Entry | null = null;
  for (;;) {
    const page: Entry[] = await store.read(closedEntries, { ...asked, after: last });
    for (const entry of page) if (!seen.has(entry.id)) tally.add(entry);
    last = page.at(-1) ?? null;
    if (page.length < page_rows) return tally;
    if (slices.isOver()) await slices.rest();
  }
}
