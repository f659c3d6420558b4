/**
 * Proofs that are given out: the owner's token file, one-time links, sessions, keys and tokens.
 *
 * Invariants: a plain-text proof leaves here once and is never stored; with an Idempotency-Key a
 * key, token or invitation is derived from it and the deployment's pepper, so that a repeat shows
 * the same one without anybody having kept it (ADR-0024).
 */
import { createHmac } from 'node:crypto';
import { join } from 'node:path';
import { limits } from '../../contract/limits.ts';
import { makeId } from '../../core/ids.ts';
import { makeToken, type TokenPrefix, token_random_bytes } from '../../core/token.ts';
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
  makeSignInLink(user_id: string, by?: LinkMaker): Promise<Secret>;
  /** Exchanges a link's secret for a session's cookie value; null where it is spent. */
  openSession(link: string, by?: LinkUser): Promise<{ cookie: Secret; user_id: string } | null>;
  /** The value of a session's cookie. */
  makeCookie(): Secret;
  /** The secret of a ticket that opens the site of a workload, once. */
  makeTicket(): Secret;
  makeEndpointKey(idempotency: Idempotency): Secret;
  makeApiToken(idempotency: Idempotency): Secret;
  /** The secret of an invitation or of a link that resets a password. */
  makeInvitation(idempotency: Idempotency): Secret;
  readonly pepper: Secret;
};

type Idempotency = { principal: string; key: string } | null;
type LinkMaker = { action: Action; session_until: number | null };
type LinkUser = { attempt: Attempt; client: string };

export function createProofs(deps: {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  data_dir: string;
}): Proofs {
  const { store, clock, random, data_dir } = deps;
  const pepper = readPepper(data_dir, random);
  const newId = () => makeId(clock.now(), random.bytes(10));
  const makeCookie = () => new Secret(Buffer.from(random.bytes(32)).toString('base64url'));
  /** One that can come again, where the caller has an Idempotency-Key; else a random one. */
  const derived = (prefix: TokenPrefix, what: string, idempotency: Idempotency) => {
    if (idempotency === null) {
      return new Secret(makeToken(prefix, random.bytes(token_random_bytes)));
    }
    const { principal, key } = idempotency;
    const hmac = createHmac('sha256', pepper.reveal());
    return new Secret(
      makeToken(prefix, hmac.update(JSON.stringify([what, principal, key])).digest()),
    );
  };
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
    async makeSignInLink(user_id, by) {
      const token = makeToken('eat_', random.bytes(token_random_bytes));
      const now = clock.now();
      await store.transact('addSignInLink', {
        hash: digest(token),
        user_id,
        now,
        expires_at: now + limits.sign_in_link_ms,
        ...by,
      });
      return new Secret(token);
    },
    async openSession(link, by) {
      const cookie = makeCookie();
      const now = clock.now();
      const opened = await store.transact('openSession', {
        link_hash: digest(link),
        session_id: newId(),
        session_hash: digest(cookie.reveal()),
        now,
        expires_at: now + limits.session_ms,
        ...by,
      });
      return opened === null ? null : { cookie, user_id: opened.user_id };
    },
    makeCookie,
    makeTicket: () => new Secret(makeToken('eat_', random.bytes(token_random_bytes))),
    makeEndpointKey: (idempotency) => derived('ept_', 'endpoint-key', idempotency),
    makeApiToken: (idempotency) => derived('tsk_', 'api-token', idempotency),
    makeInvitation: (idempotency) => derived('eat_', 'invitation', idempotency),
    pepper,
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
