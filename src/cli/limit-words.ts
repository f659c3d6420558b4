/**
 * Limits on requests as options, and in words.
 */
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

/** "60 requests/min, 4 at a time", or "none". */
export function limitWords({ rpm, tpm, concurrency }: RequestLimits): string {
  const words = [
    ...(rpm === null ? [] : [`${rpm} requests/min`]),
    ...(tpm === null ? [] : [`${tpm} tokens/min`]),
    ...(concurrency === null ? [] : [`${concurrency} at a time`]),
  ];
  return words.length === 0 ? 'none' : words.join(', ');
}
