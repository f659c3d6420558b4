/**
 * Waiting for a run to answer, and watching it afterwards: what kinds have in common.
 *
 * Invariants: deadlines are by progress, so a slow disk is no failure and a hang is one; a run is
 * only said to have ended where its driver says so; one that was made to stand still does not hang.
 */
import { formatDuration } from '../core/format.ts';
import type { ReasonCode } from '../core/reasons.ts';
import type { RunKey } from '../core/run.ts';
import { type Driver, no_stats } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import type { EngineReply } from './engine-client.ts';
import { failure, lookAtRun, type Outcome, type Tell } from './run-work.ts';

export type Patience = {
  /** No sign of progress while loading. */
  load_silence_ms: number;
  /** For the first token. */
  answer_ms: number;
  /** Between two looks at a running engine. */
  look_every_ms: number;
  /** Between two health checks. */
  health_every_ms: number;
  /** For one health check; three failures in a row mean that it hangs. */
  health_ms: number;
  /** What is asked of an engine may stand still for so long before one token is asked for. */
  doubt_ms: number;
  /** Hard work without a step is taken for one long step for so long. */
  work_limit_ms: number;
};

export const patience: Patience = {
  load_silence_ms: 120_000,
  answer_ms: 120_000,
  look_every_ms: 500,
  health_every_ms: 10_000,
  health_ms: 10_000,
  doubt_ms: 60_000,
  work_limit_ms: 3_600_000,
};

export type Watched = {
  driver: Driver;
  run: RunKey;
  clock: Clock;
  patience: Patience;
  codes: { exited: ReasonCode; never_ready: ReasonCode; hangs: ReasonCode };
  /** Asks whether it is well; null where a kind has nothing to ask. */
  ask: ((signal: AbortSignal) => Promise<EngineReply>) | null;
};

/** Waits until an answer is `good`. */
export async function untilAnswered(
  watched: Watched,
  good: (status: number) => boolean,
  signal: AbortSignal,
): Promise<Outcome> {
  const { driver, run, clock, codes, ask } = watched;
  let progress = '';
  let progressed_at = clock.monotonic();
  while (!signal.aborted) {
    const reply = await ask?.(signal);
    if (reply?.ok && good(reply.status)) return { ok: true };
    const seen = await lookAtRun(driver, run);
    if (seen === 'ended') return failure(codes.exited);
    // Memory that grows and lines that are written are progress; burning CPU is none.
    const [stats, log] = await Promise.all([
      driver.stats(run).catch(() => no_stats),
      driver.logs(run, -1, 1).catch(() => null),
    ]);
    const now = `${log?.next_offset}/${Math.floor((stats.memory_bytes ?? 0) / 2 ** 20)}`;
    if (now !== progress || seen === 'paused') {
      progress = now;
      progressed_at = clock.monotonic();
    }
    const silent_ms = clock.monotonic() - progressed_at;
    if (silent_ms >= watched.patience.load_silence_ms) {
      return failure(codes.never_ready, { waited: formatDuration(silent_ms) });
    }
    await clock.sleep(Math.min(100, watched.patience.look_every_ms), signal);
  }
  return failure(codes.exited);
}

/** Watches until it has ended, hangs, or the signal comes. */
export async function watchRun(
  watched: Watched,
  signal: AbortSignal,
  tell: Tell,
): Promise<Outcome> {
  const { driver, run, clock, codes, ask } = watched;
  const { look_every_ms, health_every_ms } = watched.patience;
  let healthy_at = clock.monotonic();
  let asked_at = clock.monotonic();
  let failures = 0;
  while (!signal.aborted) {
    await clock.sleep(look_every_ms, signal);
    if (signal.aborted) break;
    const seen = await lookAtRun(driver, run);
    if (seen === 'ended') return failure(codes.exited);
    if (seen === 'paused') {
      // It is asked again only a while after it goes on.
      failures = 0;
      healthy_at = asked_at = clock.monotonic();
    }
    if (clock.monotonic() - asked_at < health_every_ms) continue;
    asked_at = clock.monotonic();
    const { oom_kills = null } = await driver.stats(run).catch(() => no_stats);
    if (oom_kills !== null && oom_kills > 0) tell({ oom_kills });
    const reply = ask === null ? null : await ask(signal);
    if (reply === null || reply.ok) {
      failures = 0;
      healthy_at = clock.monotonic();
    } else if (++failures >= 3) {
      const waited = formatDuration(clock.monotonic() - healthy_at);
      return failure(codes.hangs, { waited });
    }
  }
  return { ok: true };
}
