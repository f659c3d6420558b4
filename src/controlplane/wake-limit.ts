/**
 * How often a key may wake what was stopped for being idle.
 *
 * Invariants: who only waits for what is being woken already is not counted; in no minute does one
 * key wake more than the limit; what a key did more than a minute ago is forgotten.
 */
import { limits } from '../contract/limits.ts';
import { createWindow, type Window } from '../gateway/limits/window.ts';
import type { Clock } from '../lib/clock.ts';

export type WakeLimit = {
  /** Null: it may, and this one counts; otherwise in how many milliseconds it may. */
  take(key_id: string): number | null;
};

export function createWakeLimit(clock: Pick<Clock, 'monotonic'>): WakeLimit {
  const windows = new Map<string, Window>();
  return {
    take(key_id) {
      const now = clock.monotonic();
      if (windows.size >= limits.keys_remembered) forget(windows, now);
      const window = windows.get(key_id) ?? createWindow();
      const wait_ms = window.fallsTo(now, limits.wakes_per_minute - 1);
      if (wait_ms > 0) return wait_ms;
      window.add(now, 1);
      windows.set(key_id, window);
      return null;
    },
  };
}

function forget(windows: Map<string, Window>, now: number): void {
  for (const [key_id, window] of windows) {
    if (window.sum(now) === 0) windows.delete(key_id);
  }
}
