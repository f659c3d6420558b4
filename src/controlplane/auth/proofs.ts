/**
 * Proofs that are given out: the owner's token file, one-time links, sessions, endpoint keys.
 *
 * Invariants: a plain-text proof leaves here once and is never stored; with an Idempotency-Key an
 * endpoint key is derived from it and the deployment's pepper, so that a repeat shows the same key
 * without anybody having kept it (ADR-0024).
 */
import { createHmac } from 'node:crypto';
import { join } from 'node:path';
import { limits } from '../../contract/limits.ts';
import { makeId } from '../../core/ids.ts';
import { makeToken, token_random_bytes } from '../../core/token.ts';
import type { Clock } from '../../lib/clock.ts';
import { readIfThere, writeDurably } from '../../lib/files.ts';
import type { Random } from '../../lib/random.ts';
import { digest, Secret } from '../../lib/secret.ts';
import type { Action, Attempt } from '../../store/activity.ts';
import type { EinsoraStore } from '../../store/transactions.ts';

export type Proofs = {
  /** Makes a new owner's token, revokes the one before, and writes it beside the data (0600). */
  writeOwnerToken(user_id: string): Promise<void>;
  /** A secret that signs one browser in, once. */
  makeSignInLink(user_id: string, action?: Action): Promise<Secret>;
  /** Exchanges a link's secret for a session's cookie value; null where it is spent. */
  openSession(link: string, attempt?: Attempt): Promise<{ cookie: Secret; user_id: string } | null>;
  makeEndpointKey(idempotency: { principal: string; key: string } | null): Secret;
};

export function createProofs(deps: {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  data_dir: string;
}): Proofs {
  const { store, clock, random, data_dir } = deps;
  const pepper = readPepper(data_dir, random);
  const newId = () => makeId(clock.now(), random.bytes(10));
  return {
    async writeOwnerToken(user_id) {
      const token = makeToken('tsk_', random.bytes(token_random_bytes));
      await store.transact('replaceOwnerToken', {
        id: newId(),
        user_id,
        name: 'local owner',
        hash: digest(token),
        last_four: token.slice(-4),
        now: clock.now(),
      });
      writeDurably(join(data_dir, 'owner-token'), `${token}\n`);
    },
    async makeSignInLink(user_id, action) {
      const token = makeToken('eat_', random.bytes(token_random_bytes));
      const now = clock.now();
      await store.transact('addSignInLink', {
        hash: digest(token),
        user_id,
        now,
        expires_at: now + limits.sign_in_link_ms,
        ...(action === undefined ? {} : { action }),
      });
      return new Secret(token);
    },
    async openSession(link, attempt) {
      const cookie = Buffer.from(random.bytes(32)).toString('base64url');
      const now = clock.now();
      const opened = await store.transact('openSession', {
        link_hash: digest(link),
        session_id: newId(),
        session_hash: digest(cookie),
        now,
        expires_at: now + limits.session_ms,
        ...(attempt === undefined ? {} : { attempt }),
      });
      return opened === null ? null : { cookie: new Secret(cookie), user_id: opened.user_id };
    },
    makeEndpointKey(idempotency) {
      const bytes =
        idempotency === null
          ? random.bytes(token_random_bytes)
          : createHmac('sha256', pepper.reveal())
              .update(JSON.stringify(['endpoint-key', idempotency.principal, idempotency.key]))
              .digest();
      return new Secret(makeToken('ept_', bytes));
    },
  };
}

function readPepper(data_dir: string, random: Random): Secret {
  const path = join(data_dir, 'pepper');
  const known = readIfThere(path);
  if (known !== null && known.length >= 64) return new Secret(known);
  const made = Buffer.from(random.bytes(32)).toString('hex');
  writeDurably(path, made);
  return new Secret(made);
}
