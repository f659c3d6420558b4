/**
 * Whether a ready engine still makes tokens, whatever its health check says (ADR-0074): looked at
 * by its own count of steps, and asked for one token where that stands still, or where the gateway
 * got nothing from it.
 *
 * Invariants: one of which nobody wants anything is not asked, so that an idle engine stays idle;
 * silence counts only with no step and no hard work since the question, and where steps are told at
 * all; a failure of the engine's own (5xx) counts always; what stood still because it was made to
 * counts for nothing.
 */
import { formatDuration } from '../core/format.ts';
import type { RunKey } from '../core/run.ts';
import { type Driver, no_stats } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { type EngineProgress, progressIn } from '../runtimes/engine-progress.ts';
import type { EngineReply } from './engine-client.ts';
import type { Patience } from './run-watch.ts';
import { failure, lookAtRun, type Outcome } from './run-work.ts';

/** Questions in a row that came to nothing, before the engine is ended. */
export const stuck_tries = 3;

export type EngineWatch = {
  driver: Driver;
  run: RunKey;
  cpu_millis: number;
  clock: Clock;
  patience: Patience;
  /** The gateway got nothing from it of late. */
  isDoubted(): boolean;
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
  /** Until then no silence can be held against it. */
  excused_at: number;
  /** Questions in a row that got no answer. */
  silences: number;
  /** Questions in a row at which it failed, and when the first did. */
  refusals: number;
  refused_since: number;
};

const none_refused = { refusals: 0, refused_since: 0 };

export function noSuspicion(now: number, steps: number | null = null): Suspicion {
  return { steps, quiet_since: now, excused_at: now, silences: 0, ...none_refused };
}

/** What a look says. One batch of a long prompt may burn CPU for many minutes, but not for ever. */
export function suspect(
  before: Suspicion,
  { seen, progress, works_hard }: EngineSigns,
  now: number,
  work_limit_ms: number,
): Suspicion {
  if (seen !== 'going') return noSuspicion(now);
  const { refusals, refused_since } = before;
  const excused = (steps: number | null) => ({
    ...{ ...noSuspicion(now, steps), refusals, refused_since },
  });
  if (progress === 'untold') return excused(null);
  if (progress !== 'silent') {
    const rests = progress.open === 0 && before.silences === 0;
    if (progress.steps !== before.steps || rests) return excused(progress.steps);
  }
  const is_work = works_hard && now - before.quiet_since < work_limit_ms;
  return is_work ? { ...before, excused_at: now, silences: 0 } : before;
}

export type TokenAnswer = 'gave' | 'failed' | 'silent';

/** What a question that was asked at `asked_at` says. */
export function suspectAnswer(
  before: Suspicion,
  { asked_at, how }: { asked_at: number; how: TokenAnswer },
  now: number,
): Suspicion {
  if (how === 'gave') return noSuspicion(now, before.steps);
  if (how === 'failed') {
    const refused_since = before.refusals === 0 ? asked_at : before.refused_since;
    return { ...before, refusals: before.refusals + 1, refused_since };
  }
  if (before.excused_at > asked_at) return before;
  return { ...before, silences: before.silences + 1 };
}

/** How long nothing came of it, where that is proven; else null. */
export function stuckFor(suspicion: Suspicion, now: number): number | null {
  if (suspicion.silences >= stuck_tries) return now - suspicion.quiet_since;
  return suspicion.refusals >= stuck_tries ? now - suspicion.refused_since : null;
}

/** Resolves with why it has to be ended, or when the signal comes. */
export async function watchForTokens(watch: EngineWatch, signal: AbortSignal): Promise<Outcome> {
  const { clock, patience } = watch;
  let suspicion = noSuspicion(clock.monotonic());
  let cpu: CpuLook = { at: clock.monotonic(), cpu_ms: null };
  // It was ready, so it gave one.
  let gave_at = clock.monotonic();
  let is_asking = false;
  const ask = async () => {
    is_asking = true;
    const asked_at = clock.monotonic();
    const how = howAnswered(await watch.askForToken(signal));
    suspicion = suspectAnswer(suspicion, { asked_at, how }, clock.monotonic());
    if (how === 'gave') gave_at = clock.monotonic();
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
    const stuck_ms = stuckFor(suspicion, now);
    if (stuck_ms !== null) return failure('engine_stuck', { waited: formatDuration(stuck_ms) });
    const is_quiet = now - suspicion.quiet_since >= patience.doubt_ms;
    const is_doubted = watch.isDoubted() && now - gave_at >= patience.doubt_ms;
    if (signs.seen === 'going' && (is_quiet || is_doubted) && !is_asking) void ask();
  }
  return { ok: true };
}

/** A 503 is said by who is loading or has too much to do. */
function howAnswered(reply: EngineReply): TokenAnswer {
  if (!reply.ok) return 'silent';
  if (reply.status === 200) return 'gave';
  return reply.status >= 500 && reply.status !== 503 ? 'failed' : 'silent';
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
