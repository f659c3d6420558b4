/**
 * The error that crosses the API: a code from the table of reasons, a sentence, the command that
 * helps, and the request's id.
 *
 * Invariants: `code` is stable and documented; `message` never carries a secret; the same shape
 * answers on every API path (gateway paths speak OpenAI's shape instead).
 */
import { z } from '@hono/zod-openapi';
import { type Details, fixOf, type ReasonCode, reasons, sentenceOf } from '../core/reasons.ts';
import { detailsSchema } from './details.ts';

export const errorSchema = z
  .object({
    error: z.object({
      code: z.string(),
      message: z.string(),
      fix: z.string().nullable(),
      details: detailsSchema,
      request_id: z.string(),
    }),
  })
  .openapi('Error');
export type ErrorBody = z.infer<typeof errorSchema>;

/** An expected refusal, with its place in the table of reasons. Its cause is for the log only. */
export class EinsoraError extends Error {
  readonly code: ReasonCode;
  readonly status: number;
  readonly details: Details;
  constructor(code: ReasonCode, details: Details = {}, cause?: unknown) {
    super(sentenceOf(code, details), cause === undefined ? undefined : { cause });
    this.code = code;
    this.status = reasons[code].status;
    this.details = details;
  }
  /** The command that helps, or null. */
  get fix(): string | null {
    return fixOf(this.code, this.details);
  }
  body(request_id: string): ErrorBody {
    const { code, message, fix, details } = this;
    return { error: { code, message, fix, details, request_id } };
  }
}

/** Nothing is served there, as far as the asker may know. */
export function noSuchPath(): EinsoraError {
  return new EinsoraError('not_found', { what: 'such path', list: '--help' });
}
