/**
 * Which generation each machine's desired state is at, kept in memory so that a poll that changes
 * nothing reads nothing.
 *
 * Invariants: after `change` nobody is answered from what was read before it; what nobody told of
 * (another control plane wrote it) is seen within the length of a few held polls; many changes at
 * once are one read.
 */
import { limits } from '../../contract/limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { listGenerations, sumOfGenerations } from '../../store/machines.ts';
import { readStoreEpoch } from '../../store/restore.ts';
import type { EinsoraStore } from '../../store/transactions.ts';

export type Generations = {
  /** Something may have changed. */
  change(): void;
  /** Undefined for a machine that is not known, or was removed. */
  of(machine_id: string): Promise<number | undefined>;
  /** The store's own: it is another one only in another process. */
  identity(): Promise<{ store_uuid: string; store_epoch: number }>;
};

/** So many holds are believed while this control plane wrote nothing: only another one could. */
const quiet_times = 3;
const page_rows = 1000;

type Known = { generations: Map<string, number>; removed: Set<string> };

type Deps = {
  store: EinsoraStore;
  clock: Clock;
  /** Another number after each write of this control plane. */
  written?: (() => number) | undefined;
  /** For how long polls are held, and what was read is believed. */
  hold_ms?: number;
};

/** `tell` is called after each read that found another generation than before. */
export function createGenerations(deps: Deps, tell: () => void): Generations {
  const { store, clock, written, hold_ms = limits.sync_hold_ms } = deps;
  let known: Known = { generations: new Map(), removed: new Set() };
  let sum: number | null = null;
  let read_at = Number.NEGATIVE_INFINITY;
  let read_as_of = -1;
  let is_stale = true;
  let reading: Promise<void> | null = null;
  let identity: Promise<{ store_uuid: string; store_epoch: number }> | null = null;

  async function readAll(): Promise<void> {
    is_stale = false;
    const as_of = written?.() ?? -1;
    const found = await readNews(store, sum);
    const before = known.generations;
    const is_news = [...found.generations].some(([id, number]) => before.get(id) !== number);
    if (found.generations.size > 0) known = found;
    sum = sumOfGenerations(known.generations.values());
    read_at = clock.monotonic();
    read_as_of = as_of;
    if (is_news) tell();
  }

  function isOld(): boolean {
    const age_ms = clock.monotonic() - read_at;
    const is_quiet = written !== undefined && written() === read_as_of;
    return age_ms >= (is_quiet ? quiet_times * hold_ms : hold_ms);
  }

  /** A change that comes while it is being read makes it be read once more. */
  async function refresh(): Promise<void> {
    while (is_stale || isOld()) {
      reading ??= readAll().finally(() => {
        reading = null;
      });
      await reading;
    }
  }

  return {
    change() {
      is_stale = true;
      refresh().catch(() => {}); // whoever asks reads again, and hears of it
    },
    async of(machine_id) {
      if (is_stale || isOld()) await refresh();
      return known.removed.has(machine_id) ? undefined : known.generations.get(machine_id);
    },
    identity() {
      identity ??= store.read(readStoreEpoch, {});
      identity.catch(() => {
        identity = null;
      });
      return identity;
    },
  };
}

/** All of them, or none where their sum is as it was. */
async function readNews(store: EinsoraStore, sum: number | null): Promise<Known> {
  const found: Known = { generations: new Map(), removed: new Set() };
  for (let after = ''; ; ) {
    const page = { after, limit: page_rows, known: after === '' ? sum : null };
    const rows = await store.read(listGenerations, page);
    for (const { id, generation, removed_at } of rows) {
      found.generations.set(id, generation);
      if (removed_at !== null) found.removed.add(id);
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < page_rows) return found;
    after = last.id;
  }
}
