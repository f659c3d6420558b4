/**
 * Usage: entries of the ledger, cut to a window and summed by what they are asked for.
 *
 * Invariants: pure; for any split of a window the parts sum to the whole, for any grouping the
 * groups sum to the total (ADR-0029); a correction counts by its sign; amounts are of metered time;
 * days are those of UTC.
 */
export type UsageEntry = {
  kind: 'metered' | 'held';
  sign: 1 | -1;
  user_id: string;
  workload_id: string;
  placed_class: string;
  gpu_count: number;
  cpu_millis: number;
  memory_bytes: number;
  started_at: number;
  /** Of one that is open: as far as it is proven. */
  ended_at: number;
};

/** From this moment on, up to that one, which is no part of it. */
export type Window = { from: number; to: number };

export const usageGroups = ['user', 'workload', 'class', 'day'] as const;
export type UsageGroup = (typeof usageGroups)[number];

export type Usage = {
  metered_ms: number;
  held_ms: number;
  cpu_hours: number;
  gpu_hours: number;
  memory_gib_hours: number;
};

export type UsageTally = {
  add(entry: UsageEntry): void;
  total(): Usage;
  /** In the order of their keys. */
  groups(): [key: string, usage: Usage][];
};

const day_ms = 24 * 3600_000;
const hour_ms = 3600_000;

export function createTally(window: Window, by: UsageGroup): UsageTally {
  const total = none();
  const groups = new Map<string, Usage>();
  const count = (entry: UsageEntry, key: string, ms: number) => {
    if (ms === 0) return;
    const group = groups.get(key) ?? none();
    groups.set(key, group);
    for (const usage of [total, group]) addTo(usage, entry, ms);
  };
  return {
    add(entry) {
      if (by !== 'day') return count(entry, keyOf(entry, by), lengthWithin(entry, window));
      for (const day of daysOf(entry, window)) {
        count(entry, dayName(day.from), lengthWithin(entry, day));
      }
    },
    total: () => ({ ...total }),
    groups: () => [...groups].sort(([a], [b]) => (a < b ? -1 : 1)),
  };
}

/** Milliseconds of an entry within a window, with its sign. */
export function lengthWithin(
  entry: Pick<UsageEntry, 'sign' | 'started_at' | 'ended_at'>,
  window: Window,
): number {
  const from = Math.max(entry.started_at, window.from);
  const to = Math.min(entry.ended_at, window.to);
  return to > from ? entry.sign * (to - from) : 0;
}

export function dayName(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function* daysOf(entry: UsageEntry, window: Window): Generator<Window> {
  const first = Math.max(entry.started_at, window.from);
  const last = Math.min(entry.ended_at, window.to);
  for (let day = Math.floor(first / day_ms) * day_ms; day < last; day += day_ms) {
    yield { from: Math.max(day, window.from), to: Math.min(day + day_ms, window.to) };
  }
}

function keyOf(entry: UsageEntry, by: Exclude<UsageGroup, 'day'>): string {
  if (by === 'user') return entry.user_id;
  return by === 'workload' ? entry.workload_id : entry.placed_class;
}

function addTo(usage: Usage, entry: UsageEntry, ms: number): void {
  if (entry.kind === 'held') {
    usage.held_ms += ms;
    return;
  }
  usage.metered_ms += ms;
  usage.cpu_hours += (ms * entry.cpu_millis) / (1000 * hour_ms);
  usage.gpu_hours += (ms * entry.gpu_count) / hour_ms;
  usage.memory_gib_hours += (ms * (entry.memory_bytes / 2 ** 30)) / hour_ms;
}

function none(): Usage {
  return { metered_ms: 0, held_ms: 0, cpu_hours: 0, gpu_hours: 0, memory_gib_hours: 0 };
}
