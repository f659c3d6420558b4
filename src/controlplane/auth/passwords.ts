/**
 * Passwords: hashed by argon2id into PHC strings, and checked.
 *
 * Invariants: at most so many hashes at once and so many waiting, the rest is refused before it
 * costs anything (I-48); a user who is not there takes the same time as one who is; parameters are
 * read from the stored string, so that newer ones are told from older.
 */
import { argon2, timingSafeEqual } from 'node:crypto';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { normalPassword } from '../../core/common-passwords.ts';
import type { Random } from '../../lib/random.ts';

export type Argon2Cost = { memory_kib: number; passes: number };

export type Passwords = {
  /** The PHC string to store. Rejects with `too_many_requests` where too many wait. */
  hash(password: string): Promise<string>;
  /** Is this the password? With null (nobody, or no password) it takes as long, and says no. */
  verify(password: string, stored: string | null): Promise<boolean>;
  /** Was this string made with other parameters than those of now? */
  isOutdated(stored: string): boolean;
};

/** What OWASP asks for: 19 MiB, two passes. About 50 ms of one core. */
export const usual_cost: Argon2Cost = { memory_kib: 19 * 1024, passes: 2 };
const lanes = 1;
const salt_bytes = 16;
const tag_bytes = 32;

export function createPasswords(deps: { random: Random; cost?: Argon2Cost }): Passwords {
  const { random, cost = usual_cost } = deps;
  const inTurn = createTurns(limits.password_hashes_at_once, limits.password_hashes_waiting);
  const derive = (password: string, salt: Uint8Array, at: Argon2Cost) =>
    inTurn(() => argon2id(normalPassword(password), salt, at));
  const nobody = { ...cost, salt: random.bytes(salt_bytes), tag: random.bytes(tag_bytes) };
  return {
    async hash(password) {
      const salt = random.bytes(salt_bytes);
      return toPhc({ ...cost, salt, tag: await derive(password, salt, cost) });
    },
    async verify(password, stored) {
      const known = stored === null ? null : fromPhc(stored);
      const { salt, tag, ...at } = known ?? nobody;
      const derived = await derive(password, salt, at);
      return timingSafeEqual(derived, tag) && known !== null;
    },
    isOutdated(stored) {
      const known = fromPhc(stored);
      return known?.memory_kib !== cost.memory_kib || known.passes !== cost.passes;
    },
  };
}

function argon2id(password: string, salt: Uint8Array, cost: Argon2Cost): Promise<Uint8Array> {
  const parameters = {
    message: password,
    nonce: salt,
    parallelism: lanes,
    tagLength: tag_bytes,
    memory: cost.memory_kib,
    passes: cost.passes,
  };
  return new Promise((resolve, reject) => {
    argon2('argon2id', parameters, (error, tag) => (error ? reject(error) : resolve(tag)));
  });
}

type Phc = Argon2Cost & { salt: Uint8Array; tag: Uint8Array };

function toPhc({ memory_kib, passes, salt, tag }: Phc): string {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64').replace(/=+$/, '');
  const cost = `m=${memory_kib},t=${passes},p=${lanes}`;
  return `$argon2id$v=19$${cost}$${base64(salt)}$${base64(tag)}`;
}

/** Null for what is no PHC string of ours: it matches no password. */
function fromPhc(text: string): Phc | null {
  const match =
    /^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,2}),p=1\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(
      text,
    );
  if (!match?.[3] || !match[4]) return null;
  const tag = Buffer.from(match[4], 'base64');
  if (tag.length !== tag_bytes) return null;
  const salt = Buffer.from(match[3], 'base64');
  return { memory_kib: Number(match[1]), passes: Number(match[2]), salt, tag };
}

/** Lets so many run at once and so many wait; refuses the others. */
function createTurns(at_once: number, most_waiting: number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= at_once) {
      if (waiting.length >= most_waiting) throw new EinsoraError('too_many_requests');
      await new Promise<void>((resolve) => waiting.push(resolve));
    } else {
      running += 1;
    }
    try {
      return await work();
    } finally {
      // Whoever waits takes this turn over, so that nobody slips in between.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
