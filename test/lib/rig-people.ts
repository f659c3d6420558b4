/**
 * Further tenants and users of a rig.
 */
import type { Role } from '../../src/contract/auth.ts';
import { makeId } from '../../src/core/ids.ts';
import { makeToken } from '../../src/core/token.ts';
import type { Random } from '../../src/lib/random.ts';
import { digest } from '../../src/lib/secret.ts';
import type { RigStore } from './test-stores.ts';

/** A further tenant. */
export async function addTenant(store: RigStore, slug: string, id: string): Promise<void> {
  const text = 'insert into tenants (id, slug, name, created_at) values ($1, $2, $2, 0)';
  await store.transact('write', { text, params: [id, slug] });
}

/** A further user, with an API token that works. */
export async function addUser(
  store: RigStore,
  random: Random,
  user: { tenant_id: string; name: string; role: Role; expires_at?: number },
): Promise<{ user_id: string; token: string; token_id: string }> {
  const user_id = makeId(0, random.bytes(10));
  const token_id = makeId(0, random.bytes(10));
  const token = makeToken('tsk_', random.bytes(32));
  await store.transact('write', {
    text: `insert into users (id, tenant_id, name, role, created_at) values ($1, $2, $3, $4, 0)`,
    params: [user_id, user.tenant_id, user.name, user.role],
  });
  await store.transact('write', {
    text: `insert into tokens (id, user_id, name, hash, last_four, created_at, expires_at)
      values ($1, $2, 'test', $3, $4, 0, $5)`,
    params: [token_id, user_id, digest(token), token.slice(-4), user.expires_at ?? null],
  });
  return { user_id, token, token_id };
}
