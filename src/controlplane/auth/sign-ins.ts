/**
 * Signing in by name and password: who gave the right one.
 *
 * Invariants: counted, then hashed, then said (I-48); a name that is not there, one without a
 * password, one that is disabled and a wrong password are answered alike and take alike; what was
 * tried is in no log, and its name cut short (S-12).
 */
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { passwordProblem } from '../../core/common-passwords.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import type { Secret } from '../../lib/secret.ts';
import { plainText } from '../../lib/text.ts';
import { type CredentialsRow, findCredentials, type Proven } from '../../store/passwords.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import { type Argon2Cost, createPasswords } from './passwords.ts';
import { createTries } from './tries.ts';

export type SignIns = {
  /** Who this is; throws `sign_in_wrong`, `sign_in_slow` or `too_many_requests`. */
  prove(asked: { name: string; password: string }, mark: string | null, log: Log): Promise<Person>;
  /** Is this the user's password? Counted by itself, so that it cannot slow their signing in. */
  check(user: { user_id: string; password: string | null }, password: string): Promise<boolean>;
  /** The string to store for a new password; throws `password_refused`. */
  seal(password: string, user_name: string): Promise<string>;
  /** What a browser keeps that has signed in with this name. */
  markOf(name: string): string;
};

export type Person = CredentialsRow & Proven;

export function createSignIns(deps: {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  pepper: Secret;
  /** Of a hash; tests take a cheap one. */
  cost?: Argon2Cost;
}): SignIns {
  const { store } = deps;
  const passwords = createPasswords(deps);
  const tries = createTries(deps);

  /** The same password under the parameters of now. */
  async function renew(person: Person, password: string): Promise<Person> {
    if (!passwords.isOutdated(person.password)) return person;
    const to = await passwords.hash(password);
    const { user_id, password: from } = person;
    await store.transact('rehashPassword', { user_id, from, to });
    return { ...person, password: to };
  }

  return {
    markOf: tries.markOf,
    async prove({ name, password }, mark, log) {
      const tried = tries.count(name, mark);
      const row = await store.read(findCredentials, { name });
      const stored = row?.password ?? null;
      const is_right = await passwords.verify(password, stored);
      if (!is_right || row === undefined || stored === null) {
        // A name of nobody may be a password, typed into the wrong field.
        const user = row === undefined ? null : plainText(name).slice(0, limits.name_chars);
        log.warn({ user }, 'a sign-in was refused');
        throw new EinsoraError('sign_in_wrong');
      }
      tried.succeeded();
      return renew({ ...row, password: stored }, password);
    },
    async check(user, password) {
      const tried = tries.count(`password of ${user.user_id}`, null);
      const is_right = await passwords.verify(password, user.password);
      if (is_right) tried.succeeded();
      return is_right;
    },
    async seal(password, user_name) {
      const why = passwordProblem(password, user_name);
      if (why !== null) throw new EinsoraError('password_refused', { why });
      return passwords.hash(password);
    },
  };
}
