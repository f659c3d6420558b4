/**
 * When workloads were last used, and for how long each was seen to be unused: in memory, and in the
 * store now and then (ADR-0048).
 *
 * Invariants: what is held open is in use the whole time; all that changed is written together, at
 * most once a minute, the first use after a quiet minute at once, and all of it at the end: so a
 * restart forgets no use that is older than a minute, and what may be missing is held against
 * idleness; a workload's idle time is of its current run.
 */
import { limits } from '../contract/limits.ts';
import {
  type Activity,
  activityIn,
  beginIdle,
  type IdleState,
  seeSample,
  useIt,
} from '../core/idle.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { createSignal, type Signal } from '../lib/signal.ts';
import { listUses, type UseRow } from '../store/samples.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { Told } from './samples.ts';

export type LastUse = {
  /** Somebody used it just now. */
  touch(workload_id: string): void;
  /** Somebody uses it until the returned function is called. */
  hold(workload_id: string): () => void;
  /** What a sample of it shows. */
  see(told: Told): void;
  /** It was warned of. */
  warned(workload_id: string, run_epoch: number): void;
  of(workload_id: string, run_epoch: number): UseNow;
  /** Another number after each use by a request. */
  uses(workload_id: string): number;
  stop(): Promise<void>;
};

export type UseNow = IdleState & {
  /** Wall-clock milliseconds; null where nothing is known of it. */
  used_at: number | null;
};

type Entry = {
  used_at: number | null;
  /** Of the last request, on our monotonic clock. */
  requested_mono: number;
  held: number;
  uses: number;
  state: IdleState;
  /** What of it stands in the store. */
  saved: { used_at: number | null; idle_ms: number };
};

/** Quiet time is written when so much of it came together: less may be lost without harm. */
const quiet_step_ms = 5 * 60_000;
const page_rows = 1000;
/** What a use may have come after the last writing of it, and what a look may reach back. */
const debt_ms = limits.use_saved_every_ms + limits.sample_every_ms;
const thresholds = { cpu_millis: limits.idle_cpu_millis, gpu_percent: limits.idle_gpu_percent };

export type LastUseDeps = { store: EinsoraStore; clock: Clock; log: Log };

type Context = LastUseDeps & {
  entries: Map<string, Entry>;
  /** What changed since it was written. */
  dirty: Set<string>;
  news: Signal;
};

export async function openLastUse(deps: LastUseDeps): Promise<LastUse> {
  const entries = await load(deps.store);
  const context: Context = { ...deps, entries, dirty: new Set(), news: createSignal() };
  const stopping = new AbortController();
  const running = saveNowAndThen(context, stopping.signal);
  return {
    touch: (workload_id) => touch(context, workload_id),
    hold: (workload_id) => hold(context, workload_id),
    see: (told) => see(context, told),
    warned(workload_id, run_epoch) {
      const entry = entries.get(workload_id);
      if (entry?.state.run_epoch !== run_epoch) return;
      entry.state = { ...entry.state, warned_ms: entry.state.idle_ms };
    },
    of(workload_id, run_epoch) {
      const entry = entries.get(workload_id);
      const used_at = entry?.used_at ?? null;
      const is_current = entry?.state.run_epoch === run_epoch;
      return { ...(is_current ? entry.state : beginIdle(run_epoch)), used_at };
    },
    uses: (workload_id) => entries.get(workload_id)?.uses ?? 0,
    async stop() {
      stopping.abort();
      await running;
      for (const [id, { held }] of entries) if (held > 0) touch(context, id);
      await trySave(context);
    },
  };
}

function entryOf({ entries }: Context, workload_id: string, run_epoch: number): Entry {
  const found = entries.get(workload_id) ?? newEntry(run_epoch);
  entries.set(workload_id, found);
  return found;
}

function use(context: Context, workload_id: string, entry: Entry, busy_with: Activity): void {
  entry.used_at = context.clock.now();
  entry.state = useIt(entry.state, busy_with);
  mark(context, workload_id);
}

function mark({ dirty, news }: Context, workload_id: string): void {
  dirty.add(workload_id);
  news.notify();
}

function touch(context: Context, workload_id: string): void {
  const entry = entryOf(context, workload_id, 0);
  entry.requested_mono = context.clock.monotonic();
  entry.uses += 1;
  use(context, workload_id, entry, 'request');
}

function hold(context: Context, workload_id: string): () => void {
  touch(context, workload_id);
  const entry = entryOf(context, workload_id, 0);
  entry.held += 1;
  let is_held = true;
  return () => {
    if (!is_held) return;
    is_held = false;
    entry.held -= 1;
    touch(context, workload_id);
  };
}

function see(context: Context, { run, sample, gpu_count, ends_ms, mono }: Told): void {
  const { workload_id, replica, run_epoch } = run;
  const entry = entryOf(context, workload_id, run_epoch);
  const activity = activityIn(sample, gpu_count, thresholds);
  if (replica !== 0) {
    // Idle time is counted of one replica; what another one does is use all the same.
    if (activity !== null) use(context, workload_id, entry, activity);
    return;
  }
  const since_use_ms = entry.held > 0 ? 0 : mono - entry.requested_mono;
  const told = { run_epoch, span_ms: sample.span_ms, activity };
  const before = entry.state;
  entry.state = seeSample(before, told, ends_ms, since_use_ms);
  if (entry.held > 0) entry.state = useIt(entry.state, 'request');
  if (entry.state === before) return;
  const { busy_with, idle_ms } = entry.state;
  if (busy_with !== null && busy_with !== 'unmeasured') entry.used_at = context.clock.now();
  const is_news = busy_with === null && idle_ms - entry.saved.idle_ms >= quiet_step_ms;
  if (busy_with !== null || is_news) mark(context, workload_id);
}

async function saveNowAndThen(context: Context, stopping: AbortSignal): Promise<void> {
  const { clock, dirty, news } = context;
  while (!stopping.aborted) {
    await news.wait(clock, limits.use_saved_every_ms, stopping);
    if (dirty.size === 0 || stopping.aborted) continue;
    await trySave(context);
    await clock.sleep(limits.use_saved_every_ms, stopping);
  }
}

async function trySave(context: Context): Promise<void> {
  try {
    const at_once = limits.sample_rows_at_once;
    for (let ids = [...context.dirty]; ids.length > 0; ids = ids.slice(at_once)) {
      await save(context, ids.slice(0, at_once));
    }
  } catch (error) {
    context.log.warn({ error: describeError(error) }, 'last uses were not written');
  }
}

async function save({ store, entries, dirty }: Context, ids: string[]): Promise<void> {
  const uses: UseRow[] = [];
  for (const workload_id of ids) {
    dirty.delete(workload_id);
    const entry = entries.get(workload_id);
    if (entry !== undefined) uses.push(rowOf(workload_id, entry));
  }
  try {
    await store.transact('saveUses', { uses });
  } catch (error) {
    for (const id of ids) dirty.add(id);
    throw error;
  }
  for (const { workload_id, used_at, idle_ms } of uses) {
    const entry = entries.get(workload_id);
    if (entry !== undefined) entry.saved = { used_at, idle_ms };
  }
}

function newEntry(run_epoch: number): Entry {
  return {
    used_at: null,
    requested_mono: Number.NEGATIVE_INFINITY,
    ...{ held: 0, uses: 0, state: beginIdle(run_epoch), saved: { used_at: null, idle_ms: 0 } },
  };
}

function rowOf(workload_id: string, { used_at, state }: Entry): UseRow {
  const { run_epoch, idle_ms, seen_ms } = state;
  return {
    ...{ workload_id, used_at, run_epoch, idle_ms: Math.floor(idle_ms) },
    seen_ms: seen_ms === null ? null : Math.floor(seen_ms),
  };
}

async function load(store: EinsoraStore): Promise<Map<string, Entry>> {
  const entries = new Map<string, Entry>();
  for (let after = ''; ; ) {
    const page = await store.read(listUses, { after, limit: page_rows });
    for (const { workload_id, used_at, run_epoch, idle_ms, seen_ms } of page) {
      const state = { ...beginIdle(run_epoch, { idle_ms, seen_ms }), debt_ms };
      entries.set(workload_id, { ...newEntry(0), used_at, state, saved: { used_at, idle_ms } });
    }
    const last = page.at(-1);
    if (last === undefined || page.length < page_rows) return entries;
    after = last.workload_id;
  }
}
