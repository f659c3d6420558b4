/**
 * How far a run has come: named stages with durations and bytes of bytes.
 *
 * Invariants: one stage runs at a time; a total that nobody knows stays null; time is measured on a
 * clock that only rises.
 */
import type { Stage } from '../contract/workloads.ts';
import type { Clock } from '../lib/clock.ts';

export type Stages = {
  begin(name: Stage['name']): void;
  progress(done_bytes: number, total_bytes: number | null): void;
  /** Ends the current stage as done. */
  done(note?: string): void;
  /** Ends the current stage as failed. */
  fail(note: string): void;
  list(): Stage[];
};

/** `told`: as it is listed, once it has ended. */
type Entry = { stage: Stage; began: number; told: Stage | null };

/** `changed` is called whenever the list would read differently. */
export function createStages(clock: Clock, changed: () => void): Stages {
  const entries: Entry[] = [];
  const current = () => entries.find(({ told }) => told === null);
  const end = (state: 'done' | 'failed', note: string | null) => {
    const entry = current();
    if (entry === undefined) return;
    entry.told = { ...listed(entry, clock), state, note };
    changed();
  };
  return {
    begin(name) {
      end('done', null);
      const empty = { done_bytes: null, total_bytes: null, note: null };
      const stage = { name, state: 'running' as const, duration_ms: 0, ...empty };
      entries.push({ stage, began: clock.monotonic(), told: null });
      changed();
    },
    progress(done_bytes, total_bytes) {
      const entry = current();
      if (entry === undefined) return;
      Object.assign(entry.stage, { done_bytes, total_bytes });
      changed();
    },
    done: (note) => end('done', note ?? null),
    fail: (note) => end('failed', note),
    list: () => entries.map((entry) => entry.told ?? listed(entry, clock)),
  };
}

function listed({ stage, began }: Entry, clock: Clock): Stage {
  return { ...stage, duration_ms: Math.round(clock.monotonic() - began) };
}
