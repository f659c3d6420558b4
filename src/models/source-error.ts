/**
 * What went wrong at a source, as a code of the table of reasons.
 *
 * Invariants: details hold no secret and no query of a URL, which may hold one.
 */
import type { Details, ReasonCode } from '../core/reasons.ts';

export class SourceError extends Error {
  readonly code: ReasonCode;
  readonly details: Details;
  /** Whether asking again may help. */
  readonly temporary: boolean;
  /** How long the source asked us to wait, where it did. */
  readonly retry_after_ms: number | null;
  constructor(
    code: ReasonCode,
    details: Details,
    how: { temporary?: boolean; retry_after_ms?: number | null; cause?: unknown } = {},
  ) {
    super(code, how.cause === undefined ? undefined : { cause: how.cause });
    this.code = code;
    this.details = details;
    this.temporary = how.temporary ?? false;
    this.retry_after_ms = how.retry_after_ms ?? null;
  }
}

/** A URL without its query, to be shown. */
export function shownUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}
