/**
 * Whether a run gets on with what it was asked: one that has had requests for a while and gave
 * nothing to any of them is suspect, whatever its health check says.
 *
 * Invariants: only real progress counts (a token, a result; no headers, no comment); only time in
 * which it had something to do does; who has had nothing to do for long is judged anew. Pure:
 * whoever holds one brings the time (monotonic milliseconds).
 */
import { limits } from '../../contract/limits.ts';

export type Progress = {
  /** Requests that it has now. */
  outstanding: number;
  /** How long it had requests without progress, until `since`. */
  quiet_ms: number;
  /** It has requests, or none, since. */
  since: number;
};

export function newProgress(now: number): Progress {
  return { outstanding: 0, quiet_ms: 0, since: now };
}

export function begun(progress: Progress, now: number): void {
  if (progress.outstanding === 0) {
    if (isForgotten(progress, now)) progress.quiet_ms = 0;
    progress.since = now;
  }
  progress.outstanding += 1;
}

export function moved(progress: Progress, now: number): void {
  progress.quiet_ms = 0;
  progress.since = now;
}

export function ended(progress: Progress, now: number): void {
  progress.outstanding -= 1;
  if (progress.outstanding > 0) return;
  progress.quiet_ms += now - progress.since;
  progress.since = now;
}

export function isSuspect(progress: Progress, now: number): boolean {
  if (isForgotten(progress, now)) return false;
  const { outstanding, quiet_ms, since } = progress;
  return quiet_ms + (outstanding > 0 ? now - since : 0) >= limits.suspect_quiet_ms;
}

function isForgotten({ outstanding, since }: Progress, now: number): boolean {
  return outstanding === 0 && now - since >= limits.suspect_forgotten_ms;
}
