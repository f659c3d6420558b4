/**
 * The form of every token that Einsora gives out: a prefix that says what it is for, 30
 * characters of base62 (178 random bits), and a checksum of 6 that tells a mistyped or shortened
 * token from a wrong one before any hash or lookup is spent on it. The prefix also lets secret
 * scanners find leaked ones.
 *
 * Invariants: pure; the checksum covers the prefix, so that a token of one kind is none of
 * another. The checksum is no secret and proves nothing: only the stored digest does.
 */
import { crc32 } from 'node:zlib';

/**
 * tsk_ API token, ept_ endpoint key, ejt_ join token of a machine, eat_ one-time link or access
 * ticket.
 */
export const tokenPrefixes = ['ept_', 'eat_', 'ejt_', 'tsk_'] as const;
export type TokenPrefix = (typeof tokenPrefixes)[number];

/** Random bytes that `makeToken` needs: reducing so many to base62 leaves no usable bias. */
export const token_random_bytes = 32;

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const body_chars = 30;
const checksum_chars = 6;
const pattern = new RegExp(`^[0-9A-Za-z]{${body_chars + checksum_chars}}$`);

/** Makes a token from at least `token_random_bytes` unpredictable bytes; throws on fewer. */
export function makeToken(prefix: TokenPrefix, bytes: Uint8Array): string {
  if (bytes.length < token_random_bytes) {
    throw new Error(`a token needs ${token_random_bytes} random bytes, not ${bytes.length}`);
  }
  const number = bytes.reduce((all, byte) => (all << 8n) | BigInt(byte), 0n);
  const body = base62(number, body_chars);
  return `${prefix}${body}${checksumOf(prefix + body)}`;
}

/** Has this text the form of such a token? Says nothing about whether it was ever given out. */
export function checkToken(prefix: TokenPrefix, text: string): boolean {
  if (!text.startsWith(prefix)) return false;
  const rest = text.slice(prefix.length);
  if (!pattern.test(rest)) return false;
  return checksumOf(prefix + rest.slice(0, body_chars)) === rest.slice(body_chars);
}

const in_text = new RegExp(`(${tokenPrefixes.join('|')})[0-9A-Za-z]{12,}`, 'g');

/**
 * The text with each token in it cut to its prefix: people put them where names belong, and what a
 * client wrote there is kept and logged.
 */
export function hideTokens(text: string): string {
  return text.replace(in_text, '$1(hidden)');
}

function checksumOf(text: string): string {
  // In plain numbers: it is asked for with each request to an endpoint.
  let rest = crc32(text);
  let out = '';
  for (let index = 0; index < checksum_chars; index += 1) {
    out = alphabet.charAt(rest % 62) + out;
    rest = Math.floor(rest / 62);
  }
  return out;
}

/** The lowest `count` digits of a number in base 62. */
function base62(number: bigint, count: number): string {
  let rest = number;
  let out = '';
  for (let index = 0; index < count; index += 1) {
    out = alphabet.charAt(Number(rest % 62n)) + out;
    rest /= 62n;
  }
  return out;
}
