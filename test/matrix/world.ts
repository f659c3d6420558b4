/**
 * The people of the authorisation matrix: three tenants, every role, and every proof that is none.
 *
 * Invariants: what a caller carries is made fresh for each request, so that one request cannot end
 * another's session; nothing here knows of any route.
 */
import { Readable } from 'node:stream';
import { type Role, roles, type Scope } from '../../src/contract/auth.ts';
import { makeId } from '../../src/core/ids.ts';
import { makeToken } from '../../src/core/token.ts';
import { createSimFiles } from '../../src/drivers/sim-files.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { digest } from '../../src/lib/secret.ts';
import type { SqlValue } from '../../src/store/sql.ts';
import { addTenant, addUser, createRig, idle_backend, type Rig } from '../lib/rig.ts';

export type Person = { user_id: string; name: string; role: Role; token: string };
export type Place = {
  tenant_id: string;
  slug: string;
  people: Record<'viewer' | 'member' | 'tenant-admin' | 'colleague', Person>;
};
export type Headers = Record<string, string>;

export type World = {
  rig: Rig;
  /** The operator, and the tenant that they are of. */
  operator: Person;
  local: Place;
  home: Place;
  away: Place;
  newId(): string;
  /** A name that nothing has. */
  fresh(): string;
  write(text: string, params?: SqlValue[]): Promise<number>;
  bearer(person: Person): Headers;
  /** A session of the person, opened for this request, asking from our own page. */
  cookie(
    person: Person,
    over?: { session?: Partial<Session>; headers?: Headers },
  ): Promise<Headers>;
  /** A token of the person, made for this request. */
  token(person: Person, over: Partial<Token>): Promise<Headers>;
  close(): Promise<void>;
};

type Session = { expires_at: number; last_used_at: number; revoked_at: number | null };
type Token = { expires_at: number | null; revoked_at: number | null; scopes: Scope[] };

export async function createWorld(): Promise<World> {
  const rig = await createRig({ backend: { ...idle_backend, files: someFiles } });
  const { store, random, clock } = rig;
  let count = 0;
  const newId = () => makeId(clock.now(), random.bytes(10));
  const fresh = () => {
    count += 1;
    return `fresh-${count}`;
  };
  const write = (text: string, params: SqlValue[] = []) =>
    store.transact('write', { text, params });
  const person = async (tenant_id: string, role: Role, name: string): Promise<Person> => {
    const made = await addUser(store, random, { tenant_id, name, role });
    return { ...made, name, role };
  };
  const place = async (tenant_id: string, slug: string): Promise<Place> => {
    const of = (role: Role, name: string) => person(tenant_id, role, `${slug}-${name}`);
    const people = {
      viewer: await of('viewer', 'viewer'),
      member: await of('member', 'member'),
      'tenant-admin': await of('tenant-admin', 'admin'),
      colleague: await of('member', 'colleague'),
    };
    return { tenant_id, slug, people };
  };
  const tenants = { home: newId(), away: newId() };
  await addTenant(store, 'home', tenants.home);
  await addTenant(store, 'away', tenants.away);
  const local = await place(rig.ids.tenant_id, 'local');
  return {
    ...{ rig, newId, fresh, write, local },
    operator: await person(rig.ids.tenant_id, 'operator', 'an-operator'),
    home: await place(tenants.home, 'home'),
    away: await place(tenants.away, 'away'),
    bearer: ({ token }) => ({ authorization: `Bearer ${token}` }),
    async cookie(
      { user_id },
      { session = {}, headers = { 'sec-fetch-site': 'same-origin' } } = {},
    ) {
      const value = Buffer.from(random.bytes(32)).toString('base64url');
      const now = clock.now();
      const { expires_at = now + 3600_000, last_used_at = now, revoked_at = null } = session;
      await write(
        `insert into sessions (id, user_id, hash, created_at, last_used_at, expires_at, revoked_at)
         values ($1, $2, $3, $4, $5, $6, $7)`,
        [newId(), user_id, digest(value), now, last_used_at, expires_at, revoked_at],
      );
      return { cookie: `${rig.apiDeps.cookieName()}=${value}`, ...headers };
    },
    async token({ user_id }, { expires_at = null, revoked_at = null, scopes }) {
      const token = makeToken('tsk_', random.bytes(32));
      await write(
        `insert into tokens (id, user_id, name, hash, last_four, created_at, expires_at, revoked_at,
           scopes)
         values ($1, $2, 'made', $3, $4, 0, $5, $6, $7)`,
        [
          newId(),
          user_id,
          digest(token),
          token.slice(-4),
          expires_at,
          revoked_at,
          scopes?.join(' ') ?? null,
        ],
      );
      return { authorization: `Bearer ${token}` };
    },
    close: () => rig.close(),
  };
}

/** The files of whatever run is asked for: one that each request finds anew. */
async function someFiles() {
  const files = createSimFiles(systemClock);
  await files.write('/tmp/x', Readable.from([Buffer.from('x')]), 0o644);
  return files;
}

/** Every role with a person of it, in a tenant. */
export function personOf(world: World, place: Place, role: Role): Person {
  return role === 'operator' ? world.operator : place.people[role];
}

export const everyRole: readonly Role[] = roles;
