/**
 * What is known of machines from their agents' last words: when they were heard of, and how far
 * their runs have come. In memory only: a restart forgets it, and the next report tells it again.
 *
 * Invariants: liveness counts what was received, never an open socket; a machine that was not heard
 * of since this process began is given one lease before it counts as offline.
 */
import type { GuardReport } from '../../contract/guard.ts';
import { limits } from '../../contract/limits.ts';
import type { Stage } from '../../contract/workloads.ts';
import { type RunKey, runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';

export type Presence = {
  heard(machine_id: string): void;
  isOnline(machine_id: string): boolean;
  /** For how long nothing was received; since this process began where nothing ever was. */
  silenceMs(machine_id: string): number;
  /** Wall-clock time of the last word, or null. */
  lastHeardAt(machine_id: string): number | null;
  /** What its agent says of its owner's needs; true where that is news for placement. */
  setGuard(machine_id: string, guard: GuardReport): boolean;
  guard(machine_id: string): GuardReport | null;
  setStages(run: RunKey, stages: Stage[]): void;
  stages(run: RunKey): Stage[];
  forget(run: RunKey): void;
  /** Calls `seen` whenever stages change. Returns the undoing. */
  watchStages(seen: (run: RunKey, stages: Stage[]) => void): () => void;
};

export function createPresence(clock: Clock): Presence {
  const began = clock.monotonic();
  const heard = new Map<string, { at: number; monotonic: number }>();
  const stages = new Map<string, Stage[]>();
  const guards = new Map<string, GuardReport>();
  const watchers = new Set<(run: RunKey, stages: Stage[]) => void>();
  const silenceMs = (machine_id: string) =>
    clock.monotonic() - (heard.get(machine_id)?.monotonic ?? began);
  return {
    heard: (machine_id) =>
      void heard.set(machine_id, { at: clock.now(), monotonic: clock.monotonic() }),
    isOnline: (machine_id) => silenceMs(machine_id) < limits.machine_lease_ms,
    silenceMs,
    lastHeardAt: (machine_id) => heard.get(machine_id)?.at ?? null,
    setGuard(machine_id, guard) {
      const before = guards.get(machine_id);
      guards.set(machine_id, guard);
      return guardText(before) !== guardText(guard);
    },
    guard: (machine_id) => guards.get(machine_id) ?? null,
    setStages(run, value) {
      const name = runName(run);
      const is_same = areSame(stages.get(name) ?? [], value);
      stages.set(name, value);
      if (!is_same) for (const seen of watchers) seen(run, value);
    },
    stages: (run) => stages.get(runName(run)) ?? [],
    forget: (run) => void stages.delete(runName(run)),
    watchStages(seen) {
      watchers.add(seen);
      return () => void watchers.delete(seen);
    },
  };
}

/** Each poll tells all stages again, of everything that runs. */
function areSame(before: readonly Stage[], after: readonly Stage[]): boolean {
  return (
    before.length === after.length &&
    after.every((stage, index) => {
      const was = before[index];
      if (was === stage) return true;
      const names = Object.keys(stage) as (keyof Stage)[];
      return was !== undefined && names.every((name) => stage[name] === was[name]);
    })
  );
}

/** Without its moments, which change all the time. */
function guardText(guard: GuardReport | undefined): string {
  if (guard === undefined) return '';
  const { level, why, own_why } = guard;
  return JSON.stringify([level, why, own_why]);
}
