/**
 * What a driver refused, as the API says it: drivers know runs, people know names.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { type Details, isReasonCode } from '../../core/reasons.ts';

export function runError(thrown: unknown, name: string, request_id: string): EinsoraError {
  if (thrown instanceof EinsoraError) return thrown;
  const { code, details } = thrown as { code?: unknown; details?: Details };
  if (thrown instanceof Error && typeof code === 'string' && isReasonCode(code)) {
    return new EinsoraError(code, { why: thrown.message, ...details, name }, thrown);
  }
  return new EinsoraError('internal', { request_id }, thrown);
}
