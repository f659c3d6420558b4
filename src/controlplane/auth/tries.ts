/**
 * How often a name may be tried with a password: a few times freely, then with a delay that grows.
 *
 * Invariants: a try is counted before its password is hashed; nobody is locked out: the delay is
 * bounded, and a browser that signed in before with this name has tries of its own, which others
 * cannot use up (I-48); names are kept as hashes, and not more than so many.
 */
import { createHmac } from 'node:crypto';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { formatDuration } from '../../core/format.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Secret, sameSecret } from '../../lib/secret.ts';

export type Tries = {
  /**
   * Counts a try with this name; throws `sign_in_slow` where it comes too early. `mark` is what
   * this browser was given when it signed in before, or null.
   */
  count(name: string, mark: string | null): { succeeded(): void };
  /** What a browser keeps that has signed in with this name. */
  markOf(name: string): string;
};

/** After this long without a try, a name is forgotten. */
const forgotten_after_ms = 15 * 60_000;
const first_delay_ms = 1000;

type Entry = { tries: number; next_at: number; last_at: number };

export function createTries(deps: { clock: Clock; pepper: Secret }): Tries {
  const { clock, pepper } = deps;
  const entries = new Map<string, Entry>();
  const keyed = (parts: string[]) =>
    createHmac('sha256', pepper.reveal()).update(JSON.stringify(parts)).digest('base64url');
  const markOf = (name: string) => keyed(['known-browser', name]);

  function entryOf(key: string, now: number): Entry {
    const known = entries.get(key);
    // The one tried last is the last to be dropped.
    entries.delete(key);
    const fresh = known === undefined || now - known.last_at > forgotten_after_ms;
    const entry = fresh ? { tries: 0, next_at: now, last_at: now } : known;
    entries.set(key, entry);
    if (entries.size > limits.sign_in_names_watched) {
      const [oldest] = entries.keys();
      if (oldest !== undefined) entries.delete(oldest);
    }
    return entry;
  }

  return {
    markOf,
    count(name, mark) {
      const is_known = mark !== null && sameSecret(mark, markOf(name));
      const key = keyed([is_known ? 'tries-known' : 'tries', name]);
      const now = clock.monotonic();
      const entry = entryOf(key, now);
      if (now < entry.next_at) throw slow(entry.next_at - now);
      entry.tries += 1;
      entry.last_at = now;
      entry.next_at = now + delayAfter(entry.tries);
      return { succeeded: () => void entries.delete(key) };
    },
  };
}

/** How long until the next try, after so many. */
export function delayAfter(tries: number): number {
  const over = tries - limits.sign_in_free_tries;
  if (over < 0) return 0;
  return Math.min(limits.sign_in_longest_delay_ms, first_delay_ms * 2 ** Math.min(over, 30));
}

function slow(wait_ms: number): EinsoraError {
  const retry_after_s = Math.ceil(wait_ms / 1000);
  const wait = formatDuration(retry_after_s * 1000);
  return new EinsoraError('sign_in_slow', { wait, retry_after_s });
}
