/**
 * What waits, as the controller keeps it from pass to pass.
 *
 * Invariants: each look goes through all that waits in the store, by id and revision; only what is
 * new or changed is read in full. What is kept is a cache of rows by revision, never the truth.
 */
import type { Slices } from '../lib/slices.ts';
import { listWaiting, readWaiting, type WaitingRow } from '../store/queue.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type Waitlist = { read(now: number, slices: Slices): Promise<WaitingRow[]> };

const page_rows = 150;
/** What comes after these is looked at once some of them are placed. */
const waiting_limit = 50_000;

export function createWaitlist(store: EinsoraStore): Waitlist {
  let known = new Map<string, WaitingRow>();
  return {
    async read(now, slices) {
      const latest = new Map<string, WaitingRow>();
      for (let after = ''; latest.size < waiting_limit; ) {
        const page = await store.read(listWaiting, { now, after, limit: page_rows });
        const news: string[] = [];
        for (const { id, revision } of page) {
          const row = known.get(id);
          if (row?.revision === revision) latest.set(id, row);
          else news.push(id);
        }
        if (slices.isOver()) await slices.rest();
        for (const row of await store.read(readWaiting, { ids: news })) latest.set(row.id, row);
        const last = page.at(-1);
        if (last === undefined || page.length < page_rows) break;
        after = last.id;
        if (slices.isOver()) await slices.rest();
      }
      known = latest;
      return [...latest.values()];
    },
  };
}
