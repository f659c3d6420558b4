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

type Entry = Stage & { began: number };

/** `changed` is called whenever the list would read differently. */
export function createStages(clock: Clock, changed: () => void): Stages {
  const entries: Entry[] = [];
  const current = () => entries.find((entry) => entry.state === 'running');
  const end = (state: 'done' | 'failed', note: string | null) => {
    const entry = current();
    if (entry === undefined) return;
    entry.duration_ms = clock.monotonic() - entry.began;
    entry.state = state;
    entry.note = note;
    changed();
  };
  return {
    begin(name) {
      end('done', null);
      const empty = { done_bytes: null, total_bytes: null, note: null };
      const began = clock.monotonic();
      entries.push({ name, state: 'running', duration_ms: 0, ...empty, began });
      changed();
    },
    progress(done_bytes, total_bytes) {
      const entry = current();
      if (entry === undefined) return;
      entry.done_bytes = done_bytes;
      entry.total_bytes = total_bytes;
      changed();
    },
    done: (note) => end('done', note ?? null),
    fail: (note) => end('failed', note),
    list: () =>
      entries.map(({ began, ...stage }) => ({
        ...stage,
        duration_ms: Math.round(
          stage.state === 'running' ? clock.monotonic() - began : stage.duration_ms,
        ),
      })),
  };
}
