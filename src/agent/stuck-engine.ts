/**
 * Whether a ready engine still makes tokens, whatever its health check says (ADR-0074): looked at
 * by its own count of steps, and asked for one token where that stands still.
 *
 * Invariants: an engine that counts on is never asked, nor one of which nobody wants anything, so
 * that an idle one stays idle; only questions that failed with no step and no hard work since they
 * were asked count; what was made to stand still, and what cannot be told of, counts for nothing.
 */
import { formatDuration } from '../core/format.ts';
import type { RunKey } from '../core/run.ts';
import { type Driver, no_stats } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { type EngineProgress, progressIn } from '../runtimes/engine-progress.ts';
import type { EngineReply } from './engine-client.ts';
import type { Patience } from './run-watch.ts';
import { failure, lookAtRun, type Outcome } from './run-work.ts';

/** Questions in a row without a token, before the engine is ended. */
export const stuck_tries = 3;

export type EngineWatch = {
  driver: Driver;
  run: RunKey;
  cpu_millis: number;
  clock: Clock;
  patience: Patience;
  readMetrics(signal: AbortSignal): Promise<EngineReply>;
  /** Asks for one token, with a deadline. */
  askForToken(signal: AbortSignal): Promise<EngineReply>;
};

export type EngineSigns = {
  seen: 'ended' | 'paused' | 'going';
  /** `silent`: it did not say; `untold`: it has no such count. */
  progress: EngineProgress | 'silent' | 'untold';
  /** Most of its share of the CPU was used since the last look. */
  works_hard: boolean;
};

export type Suspicion = {
  steps: number | null;
  /** Since then there was no sign of progress. */
  quiet_since: number;
  /** Until then nothing can be held against it. */
  excused_at: number;
  failures: number;
};

export function noSuspicion(now: number, steps: number | null = null): Suspicion {
  return { steps, quiet_since: now, excused_at: now, failures: 0 };
}

/** What a look says. One batch of a long prompt may burn CPU for many minutes, but not for ever. */
export function suspect(
  before: Suspicion,
  { seen, progress, works_hard }: EngineSigns,
  now: number,
  work_limit_ms: number,
): Suspicion {
  if (seen !== 'going' || progress === 'untold') return noSuspicion(now);
  if (progress !== 'silent') {
    if (progress.steps !== before.steps) return noSuspicion(now, progress.steps);
    if (progress.open === 0 && before.failures === 0) return noSuspicion(now, progress.steps);
  }
  const is_work = works_hard && now - before.quiet_since < work_limit_ms;
  return is_work ? { ...before, excused_at: now, failures: 0 } : before;
}

/** What a question that was asked at `asked_at` says. */
export function suspectAnswer(
  before: Suspicion,
  { asked_at, ok }: { asked_at: number; ok: boolean },
  now: number,
): Suspicion {
  if (ok) return noSuspicion(now, before.steps);
  if (before.excused_at > asked_at) return before;
  return { ...before, failures: before.failures + 1 };
}

/** Resolves with why it has to be ended, or when the signal comes. */
export async function watchForTokens(watch: EngineWatch, signal: AbortSignal): Promise<Outcome> {
  const { clock, patience } = watch;
  let suspicion = noSuspicion(clock.monotonic());
  let cpu: CpuLook = { at: clock.monotonic(), cpu_ms: null };
  let is_asking = false;
  const ask = async () => {
    is_asking = true;
    const asked_at = clock.monotonic();
    const reply = await watch.askForToken(signal);
    const ok = reply.ok && reply.status === 200;
    suspicion = suspectAnswer(suspicion, { asked_at, ok }, clock.monotonic());
    is_asking = false;
  };
  while (!signal.aborted) {
    await clock.sleep(patience.health_every_ms, signal);
    if (signal.aborted) break;
    const next = await lookAtCpu(watch);
    const signs = await signsOf(watch, cpu, next, signal);
    cpu = next;
    if (signal.aborted) break;
    const now = clock.monotonic();
    suspicion = suspect(suspicion, signs, now, patience.work_limit_ms);
    const quiet_ms = now - suspicion.quiet_since;
    if (suspicion.failures >= stuck_tries) {
      return failure('engine_stuck', { waited: formatDuration(quiet_ms) });
    }
    if (quiet_ms >= patience.doubt_ms && !is_asking) void ask();
  }
  return { ok: true };
}

type CpuLook = { at: number; cpu_ms: number | null };

async function lookAtCpu({ driver, run, clock }: EngineWatch): Promise<CpuLook> {
  const { cpu_ms } = await driver.stats(run).catch(() => no_stats);
  return { at: clock.monotonic(), cpu_ms };
}

async function signsOf(
  { driver, run, cpu_millis, readMetrics }: EngineWatch,
  before: CpuLook,
  now: CpuLook,
  signal: AbortSignal,
): Promise<EngineSigns> {
  const seen = await lookAtRun(driver, run);
  const reply = await readMetrics(signal);
  const used_ms = (now.cpu_ms ?? 0) - (before.cpu_ms ?? now.cpu_ms ?? 0);
  const share_ms = ((now.at - before.at) * cpu_millis) / 1000;
  const works_hard = share_ms > 0 && used_ms >= share_ms / 2;
  if (!reply.ok) return { seen, progress: 'silent', works_hard };
  const told = reply.status === 200 ? progressIn(reply.body) : null;
  return { seen, progress: told ?? 'untold', works_hard };
}
