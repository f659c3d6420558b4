/**
 * Limits on requests as options, and in words.
 */
import type { RequestUse } from '../contract/request-limits.ts';
import type { RequestLimits } from '../core/request-limits.ts';

type Limit = number | 'none';
export type LimitOptions = { rpm?: Limit; tpm?: Limit; concurrency?: Limit };

/** What is named; `none` lifts. */
export function limitsOf({ rpm, tpm, concurrency }: LimitOptions): Partial<RequestLimits> {
  const given: [keyof RequestLimits, Limit | undefined][] = [
    ['rpm', rpm],
    ['tpm', tpm],
    ['concurrency', concurrency],
  ];
  return Object.fromEntries(
    given.flatMap(([name, limit]) =>
      limit === undefined ? [] : [[name, limit === 'none' ? null : limit]],
    ),
  );
}

/** "60 requests/min, 4 at a time", with what is used of them "3 of 60 requests/min", or "none". */
export function limitWords({ rpm, tpm, concurrency }: RequestLimits, use?: RequestUse): string {
  const of = (limit: number, used: number | undefined) =>
    used === undefined ? `${limit}` : `${used} of ${limit}`;
  const words = [
    ...(rpm === null ? [] : [`${of(rpm, use?.requests)} requests/min`]),
    ...(tpm === null ? [] : [`${of(tpm, use?.tokens)} tokens/min`]),
    ...(concurrency === null ? [] : [`${of(concurrency, use?.concurrency)} at a time`]),
  ];
  return words.length === 0 ? 'none' : words.join(', ');
}
