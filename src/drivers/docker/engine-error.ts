/**
 * What can go wrong between us and a Docker Engine, and what it means to who asked.
 *
 * Invariants: an engine that did not answer is never taken for one that said no; the engine's own
 * words are kept, shortened to one line.
 */
import { type Details, type ReasonCode, sentenceOf } from '../../core/reasons.ts';
import { describeError } from '../../lib/log.ts';
import { DriverError } from '../driver.ts';

/** The engine answered, and refused. */
export class EngineRefusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Why nothing came back that can be used. */
export type DownKind = 'absent' | 'denied' | 'refused' | 'silent' | 'broken' | 'garbled' | 'api';

/** The engine did not answer, so whether it did what it was asked is not known. */
export class EngineDown extends Error {
  readonly kind: DownKind;
  constructor(kind: DownKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}

export function driverError(code: ReasonCode, details: Details, cause?: unknown): DriverError {
  return new DriverError(code, sentenceOf(code, details), cause, details);
}

export function startFailed(why: string, cause?: unknown): DriverError {
  return driverError('start_failed', { why }, cause);
}

/** An error of a start as the driver's contract wants it. */
export function asStartError(error: unknown, image: string): DriverError {
  if (error instanceof DriverError) return error;
  const message = describeError(error);
  if (/no space left on device/i.test(message)) {
    return driverError('container_disk_full', { why: oneLine(message) }, error);
  }
  const program = /exec: "([^"]+)": (?:executable file not found|stat |permission denied)/.exec(
    message,
  )?.[1];
  if (program !== undefined) {
    return startFailed(`${image} has no program ${program} that can be run`, error);
  }
  return startFailed(oneLine(message), error);
}

export function isStatus(error: unknown, ...statuses: number[]): boolean {
  return error instanceof EngineRefusal && statuses.includes(error.status);
}

const line_chars = 400;

export function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim().replace(/\.$/, '');
  return line.length > line_chars ? `${line.slice(0, line_chars)}…` : line;
}
