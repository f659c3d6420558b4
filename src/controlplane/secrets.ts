/**
 * Secrets of tenants: sealed by the deployment's key, opened only for the machine that needs them.
 *
 * Invariants: AES-256-GCM with a fresh nonce; a sealed value opens for its own tenant, name and id
 * alone, so that no row can be put in another's place; a value leaves here only as a `Secret`.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto';
import { EinsoraError } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import { makeId } from '../core/ids.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import { Secret } from '../lib/secret.ts';
import type { Action } from '../store/activity.ts';
import { findSecret, listForeignSecrets, type SealedSecret } from '../store/secrets.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { type DeploymentKey, openDeploymentKeys } from './deployment-key.ts';

export type Secrets = {
  /** The value of a tenant's secret; null where there is none. Throws `secret_unreadable`. */
  reveal(tenant_id: string, name: string): Promise<Secret | null>;
  /** Seals and stores a value, in place of what the name had before. Throws `too_many_secrets`. */
  set(args: SetArgs): Promise<{ name: string; created_at: number; updated_at: number }>;
};

export type SetArgs = {
  tenant_id: string;
  user_id: string;
  name: string;
  value: Secret;
  action?: Action;
};

type Place = Pick<SealedSecret, 'tenant_id' | 'name' | 'id'>;

const nonce_bytes = 12;
const tag_bytes = 16;
const reseal_rows = 100;

/** Reads or makes the deployment's key. Throws `deployment_key_missing` or `_wrong`. */
export async function openSecrets(deps: {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  data_dir: string;
  /** Forget what a lost key sealed. */
  renew?: boolean;
}): Promise<Secrets> {
  const { store, clock, random } = deps;
  const keys = await openDeploymentKeys(deps);
  const sealFor = (place: Place, value: Secret) => seal(keys[0], place, value, random);
  for (;;) {
    const args = { key_id: keys[0].key_id, limit: reseal_rows };
    const rows = await store.read(listForeignSecrets, args);
    for (const row of rows) await store.transact('resealSecret', sealFor(row, open(keys, row)));
    if (rows.length < reseal_rows) break;
  }
  return {
    async reveal(tenant_id, name) {
      const row = await store.read(findSecret, { tenant_id, name });
      return row === undefined ? null : open(keys, row);
    },
    async set({ tenant_id, user_id, name, value, action }) {
      const now = clock.now();
      const id = makeId(now, random.bytes(10));
      const done = await store.transact('setSecret', {
        ...sealFor({ tenant_id, name, id }, value),
        ...{ user_id, now, limit: limits.secrets_per_tenant },
        ...(action === undefined ? {} : { action }),
      });
      if (!done.ok) throw new EinsoraError(done.code, { limit: limits.secrets_per_tenant });
      const { created_at, updated_at } = done.row;
      return { name, created_at, updated_at };
    },
  };
}

/** What a sealed value is bound to. */
function bindingOf({ tenant_id, name, id }: Place): Buffer {
  return Buffer.from(JSON.stringify([tenant_id, name, id]));
}

function seal(by: DeploymentKey, place: Place, value: Secret, random: Random): SealedSecret {
  const nonce = random.bytes(nonce_bytes);
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(by.key.reveal(), 'hex'), nonce);
  cipher.setAAD(bindingOf(place));
  const sealed = Buffer.concat([
    cipher.update(value.reveal(), 'utf8'),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
  const { tenant_id, name, id } = place;
  const text = { nonce: Buffer.from(nonce).toString('base64'), sealed: sealed.toString('base64') };
  return { id, tenant_id, name, key_id: by.key_id, ...text };
}

function open(keys: readonly DeploymentKey[], row: SealedSecret): Secret {
  const by = keys.find((one) => one.key_id === row.key_id);
  const unreadable = (cause?: unknown) =>
    new EinsoraError('secret_unreadable', { name: row.name }, cause);
  if (by === undefined) throw unreadable();
  try {
    const bytes = Buffer.from(row.sealed, 'base64');
    const nonce = Buffer.from(row.nonce, 'base64');
    const key = Buffer.from(by.key.reveal(), 'hex');
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tag_bytes });
    decipher.setAAD(bindingOf(row));
    decipher.setAuthTag(bytes.subarray(-tag_bytes));
    const value = [decipher.update(bytes.subarray(0, -tag_bytes)), decipher.final()];
    return new Secret(Buffer.concat(value).toString('utf8'));
  } catch (error) {
    throw unreadable(error);
  }
}
