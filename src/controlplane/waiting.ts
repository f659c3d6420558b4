/**
 * What waits, as the controller keeps it from pass to pass.
 *
 * Invariants: each look goes through all that waits in the store, by id and revision; where a
 * stretch of it reads as before, nothing of that is new; only what is new or changed is read in
 * full. What is kept is a cache of rows by revision, never the truth.
 */
import type { Slices } from '../lib/slices.ts';
import { listWaiting, readWaiting, type WaitingRow, waitingText } from '../store/queue.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type Waitlist = { read(now: number, slices: Slices): Promise<WaitingRow[]> };

/** What waits from where the stretch before ends to an id, and how it read when it was looked at. */
type Stretch = { upto: string; text: string; rows: WaitingRow[] };

const stretch_rows = 500;
/** Of full rows at once: long, so few. */
const page_rows = 150;
/** What comes after these is looked at once some of them are placed. */
const waiting_limit = 50_000;
/** Of which nothing is known: what came since. Its end is after every id. */
const the_rest: Stretch = { upto: '~', text: '', rows: [] };

export function createWaitlist(store: EinsoraStore): Waitlist {
  let known: readonly Stretch[] = [];
  return {
    async read(now, slices) {
      const latest: Stretch[] = [];
      let after = '';
      let left = waiting_limit;
      for (const stretch of [...known, the_rest]) {
        if (left <= 0) break;
        const range = { now, after, upto: stretch.upto };
        const is_same =
          stretch !== the_rest && (await store.read(waitingText, range)) === stretch.text;
        const found = is_same ? [stretch] : await lookAt(store, range, stretch, left, slices);
        for (const one of found) {
          left -= one.rows.length;
          addTo(latest, one);
        }
        after = stretch.upto;
        if (slices.isOver()) await slices.rest();
      }
      known = latest;
      return latest.flatMap(({ rows }) => rows);
    },
  };
}

/** What waits in a range, anew: of the rows that are known only those that changed are read. */
async function lookAt(
  store: EinsoraStore,
  { now, after, upto }: { now: number; after: string; upto: string },
  known: Stretch,
  most: number,
  slices: Slices,
): Promise<Stretch[]> {
  const seen = new Map(known.rows.map((row) => [row.id, row]));
  const found: Stretch[] = [];
  let from = after;
  for (let count = 0; count < most; count += stretch_rows) {
    const page = await store.read(listWaiting, { now, after: from, upto, limit: stretch_rows });
    const news = page.filter(({ id, revision }) => seen.get(id)?.revision !== revision);
    for (let at = 0; at < news.length; at += page_rows) {
      if (slices.isOver()) await slices.rest();
      const ids = news.slice(at, at + page_rows).map(({ id }) => id);
      for (const id of ids) seen.delete(id);
      for (const row of await store.read(readWaiting, { ids })) seen.set(row.id, row);
    }
    const is_end = page.length < stretch_rows;
    const last = page.at(-1);
    if (last === undefined) break;
    const rows = page.flatMap(({ id }) => seen.get(id) ?? []);
    const end = is_end && known !== the_rest ? upto : last.id;
    found.push({ upto: end, text: textOf(rows), rows });
    if (slices.isOver()) await slices.rest();
    if (is_end) break;
    from = last.id;
  }
  return found;
}

/** Small ones beside each other become one: what waited there was placed. */
function addTo(stretches: Stretch[], next: Stretch): void {
  const last = stretches.at(-1);
  if (last === undefined || last.rows.length + next.rows.length > stretch_rows / 2) {
    stretches.push(next);
    return;
  }
  const rows = [...last.rows, ...next.rows];
  stretches[stretches.length - 1] = { upto: next.upto, text: textOf(rows), rows };
}

/** As `waitingText` reads as long as these wait, in these versions. */
function textOf(rows: readonly WaitingRow[]): string {
  return rows.map(({ id, revision }) => `${id}${revision}`).join('');
}
