/**
 * Failures of the network and of a server, put into words.
 *
 * Invariants: pure; nothing of what a far end says gets into the words, but its numbers.
 */
const words: Record<string, string> = {
  ENOTFOUND: 'its name has no address',
  EAI_AGAIN: 'its name could not be looked up',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection broke',
  EPIPE: 'the connection broke',
  ETIMEDOUT: 'no answer came',
  EHOSTUNREACH: 'there is no way to it',
  ENETUNREACH: 'this machine has no network',
  HPE_HEADER_OVERFLOW: 'the head of its answer is too long',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is signed by nobody that this machine knows',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is signed by nobody that this machine knows',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is signed by nobody that this machine knows',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
};

/** Why a source could not be talked to, and whether trying again may help. */
export function whyUnreachable(error: unknown): { why: string; temporary: boolean } {
  const code = (error as NodeJS.ErrnoException | null)?.code ?? '';
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : null;
  if (first !== null && words[code] === undefined) return whyUnreachable(first);
  const known = words[code];
  const temporary = !/CERT|SSL|TLS|SIGN/.test(code);
  if (known !== undefined) return { why: known, temporary };
  if (code.startsWith('HPE_')) return { why: 'what answers does not speak HTTP', temporary: false };
  if (/^ERR_(SSL|TLS)|^EPROTO/.test(code)) {
    return { why: 'it could not be talked to by TLS', temporary: false };
  }
  if (code !== '') return { why: code, temporary };
  return { why: error instanceof Error ? error.message : String(error), temporary };
}

const longest_ms = 24 * 3600_000;

/** A Retry-After header, seconds or a date, as milliseconds; null where it says nothing. */
export function readRetryAfter(value: string | undefined, now: number): number | null {
  if (value === undefined) return null;
  const is_date = /^[a-z]{3}/i.test(value);
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) * 1000 : Number.NaN;
  const ms = is_date ? Date.parse(value) - now : seconds;
  return Number.isFinite(ms) ? Math.min(Math.max(0, ms), longest_ms) : null;
}
