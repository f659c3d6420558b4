/**
 * How long the event loop lets others wait: everything that is served shares it, so its delay is
 * the first thing to know when answers are slow (failure H9).
 *
 * Invariants: measuring costs nothing that can be felt; a minute in which one in a hundred turns
 * came too late is a warning in the log, every other one is a line for whoever asked for details.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';

/** Milliseconds. `p99` is over all turns since the last reading. */
export type LoopDelay = { p99_ms: number; max_ms: number };

export type LoopWatchDeps = {
  clock: Clock;
  log: Log;
  /** Reads the delay and begins anew; the process's own unless given. */
  read?: () => LoopDelay;
};

const every_ms = 60_000;
const late_ms = 50;
const resolution_ms = 10;

export type LoopWatch = {
  /** Of the last whole minute. */
  last(): LoopDelay;
  stop(): void;
};

export function startLoopWatch({ clock, log, read }: LoopWatchDeps): LoopWatch {
  const own = read === undefined ? openMeter() : null;
  const take = read ?? (() => own?.take() ?? { p99_ms: 0, max_ms: 0 });
  let cancel = () => {};
  let last: LoopDelay = { p99_ms: 0, max_ms: 0 };
  const look = () => {
    last = take();
    const { p99_ms, max_ms } = last;
    const fields = { p99_ms: Math.round(p99_ms), max_ms: Math.round(max_ms) };
    if (p99_ms > late_ms) log.warn(fields, 'the event loop was late: everything here waited');
    else log.debug(fields, 'event loop');
    cancel = clock.after(every_ms, look);
  };
  cancel = clock.after(every_ms, look);
  return {
    last: () => last,
    stop() {
      cancel();
      own?.stop();
    },
  };
}

function openMeter(): { take(): LoopDelay; stop(): void } {
  const meter = monitorEventLoopDelay({ resolution: resolution_ms });
  meter.enable();
  const beyond = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - resolution_ms);
  return {
    take() {
      const delay = { p99_ms: beyond(meter.percentile(99)), max_ms: beyond(meter.max) };
      meter.reset();
      return delay;
    },
    stop: () => void meter.disable(),
  };
}
