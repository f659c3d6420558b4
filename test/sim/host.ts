/**
 * A computer of the story: its two clocks, its sleep, its boots.
 *
 * Invariants: times are whole milliseconds; the wall clock steps when told and runs on while the
 * host is suspended; the monotonic clock and all timers stand still then, as they do on Linux; both
 * go on over a reboot here, for no process lives to compare them.
 */
import type { Cancel, VirtualTime } from './virtual-time.ts';

export type Host = {
  readonly name: string;
  /** Another one after each reboot. */
  bootId(): string;
  now(): number;
  monotonic(): number;
  after(ms: number, fire: () => void): Cancel;
  stepWall(by_ms: number): void;
  /** When the wall clock stepped last. */
  steppedAt(): number;
  suspend(): void;
  resume(): void;
  isSuspended(): boolean;
  reboot(): void;
};

/** Wall-clock time at which each story begins. */
export const story_began_at = 1_800_000_000_000;

export function createHost(time: VirtualTime, name: string): Host {
  let offset = story_began_at;
  let stepped_at = Number.NEGATIVE_INFINITY;
  let boots = 1;
  let suspended_since: number | null = null;
  let slept = 0;
  let parked: (() => void)[] = [];
  const monotonic = () => (suspended_since ?? time.now()) - slept;

  function after(ms: number, fire: () => void): Cancel {
    const due = monotonic() + Math.ceil(Math.max(0, ms));
    let cancel: Cancel = () => {};
    let is_off = false;
    const arm = () => {
      cancel = time.at(time.now() + due - monotonic(), come);
    };
    const come = () => {
      if (is_off) return;
      if (suspended_since !== null) parked.push(come);
      else if (monotonic() < due) arm();
      else fire();
    };
    arm();
    return () => {
      is_off = true;
      cancel();
    };
  }

  return {
    name,
    after,
    monotonic,
    bootId: () => `${name}-boot-${boots}`,
    now: () => Math.floor(offset + time.now()),
    stepWall: (by_ms) => {
      offset += by_ms;
      stepped_at = time.now();
    },
    steppedAt: () => stepped_at,
    suspend: () => {
      suspended_since ??= time.now();
    },
    resume() {
      if (suspended_since === null) return;
      slept += time.now() - suspended_since;
      suspended_since = null;
      const waiting = parked;
      parked = [];
      for (const come of waiting) come();
    },
    isSuspended: () => suspended_since !== null,
    reboot: () => {
      boots += 1;
    },
  };
}
