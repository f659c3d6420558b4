/**
 * The native driver's errors: a code of the table with its sentence filled in.
 */
import { type Details, type ReasonCode, sentenceOf } from '../../core/reasons.ts';
import { DriverError } from '../driver.ts';

export function driverError(code: ReasonCode, details: Details, cause?: unknown): DriverError {
  return new DriverError(code, sentenceOf(code, details), cause, details);
}

export function portUnreachable(port: string, why: string, cause?: unknown): DriverError {
  return driverError('port_unreachable', { port, why }, cause);
}
