/**
 * A value that must not be printed: tokens, keys, passwords.
 *
 * Invariants: every way of turning it into text (String, JSON, console, template) gives
 * `[redacted]`; only `reveal()` gives the value, so each use can be found by its name.
 */
import { hash, timingSafeEqual } from 'node:crypto';
import { inspect } from 'node:util';

const redacted = '[redacted]';

export class Secret {
  readonly #value: string;
  constructor(value: string) {
    this.#value = value;
  }
  reveal(): string {
    return this.#value;
  }
  toString(): string {
    return redacted;
  }
  toJSON(): string {
    return redacted;
  }
  [inspect.custom](): string {
    return redacted;
  }
}

/** SHA-256 in lower-case hex: how a secret of 112 bits or more is stored. */
export function digest(value: string | Uint8Array): string {
  return hash('sha256', value, 'hex');
}

/** Compares in constant time, whatever the lengths. */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(digest(a), 'hex'), Buffer.from(digest(b), 'hex'));
}
