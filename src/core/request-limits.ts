/**
 * Limits on requests to endpoints: of a key, of a user over all keys, of a model over all who ask.
 *
 * Invariants: null limits nothing; what is not limited by one of them may still be by another.
 */
export const requestLimitNames = ['rpm', 'tpm', 'concurrency'] as const;
export type RequestLimitName = (typeof requestLimitNames)[number];

/** A minute's requests, a minute's tokens, and requests at a time. */
export type RequestLimits = Record<RequestLimitName, number | null>;

export const no_request_limits: RequestLimits = { rpm: null, tpm: null, concurrency: null };

/** Whose limits they are, beside those of a key. */
export const limitedKinds = ['user', 'model'] as const;
export type LimitedKind = (typeof limitedKinds)[number];

/** The limits alone, of something that has them among others. */
export function requestLimitsOf({ rpm, tpm, concurrency }: RequestLimits): RequestLimits {
  return { rpm, tpm, concurrency };
}
