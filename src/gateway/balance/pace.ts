/**
 * How many requests a run was given in the last minute, out of two counts.
 *
 * Invariants: exact where they came evenly; never more than came in the last two minutes. Pure:
 * whoever holds one brings the time (monotonic milliseconds).
 */
export type Pace = { minute: number; now: number; before: number };

const minute_ms = 60_000;

export function newPace(): Pace {
  return { minute: 0, now: 0, before: 0 };
}

export function counted(pace: Pace, at: number): void {
  roll(pace, at);
  pace.now += 1;
}

export function perMinute(pace: Pace, at: number): number {
  roll(pace, at);
  const part = (at % minute_ms) / minute_ms;
  return Math.round(pace.before * (1 - part) + pace.now);
}

function roll(pace: Pace, at: number): void {
  const minute = Math.floor(at / minute_ms);
  if (minute === pace.minute) return;
  pace.before = minute === pace.minute + 1 ? pace.now : 0;
  pace.now = 0;
  pace.minute = minute;
}
