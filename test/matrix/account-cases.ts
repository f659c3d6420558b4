/**
 * Cases of the matrix: accounts, secrets, quotas, usage, the activity log.
 */
import type { RouteName } from '../../src/contract/routes.ts';
import { makeToken } from '../../src/core/token.ts';
import { digest, Secret } from '../../src/lib/secret.ts';
import { addUser, ask } from '../lib/rig.ts';
import type { Asked, Case, Owner } from './cases.ts';
import type { Person, World } from './world.ts';

const password = 'a long enough word';
const plain = (how: Case['ask'] = async () => ({})): Case => ({
  ask: how,
  reach: null,
  operator: false,
});
/** Of a tenant, and there for every operator. */
const ofTenant = (how: Case['ask']): Case => ({ ask: how, reach: 'tenant', operator: true });
/** Of a user, there for their admins and every operator. */
const ofUser = (how: Case['ask']): Case => ({ ask: how, reach: 'user', operator: true });

const hour_ms = 3600_000;

/** A user of the owner's tenant, for this request alone. */
async function someUser(world: World, { place }: Owner): Promise<Person> {
  const { rig, fresh } = world;
  const user = { tenant_id: place.tenant_id, name: fresh(), role: 'viewer' as const };
  return { ...(await addUser(rig.store, rig.random, user)), ...user };
}

const user = (body?: unknown) =>
  ofTenant(async (world, owner) => {
    const { user_id } = await someUser(world, owner);
    return { path: { user: user_id }, object: user_id, ...(body === undefined ? {} : { body }) };
  });

/** A tenant that is nobody's, for operators to change. */
const tenant = (body?: unknown) =>
  ofTenant(async (world) => {
    const slug = world.fresh();
    const text = 'insert into tenants (id, slug, name, created_at) values ($1, $2, $2, 0)';
    await world.write(text, [world.newId(), slug]);
    return { path: { tenant: slug }, object: slug, ...(body === undefined ? {} : { body }) };
  });

const queryTenant = ofTenant(async (_, { place }) => ({
  query: { tenant: place.slug },
  object: place.slug,
}));
const queryUser = ofUser(async (_, { person }) => ({
  query: { user: person.name },
  object: person.name,
}));

/** Stores a one-time link, as the program would. */
async function link(world: World, purpose: string): Promise<string> {
  const token = makeToken('eat_', world.rig.random.bytes(32));
  const now = world.rig.clock.now();
  const { user_id } = await someUser(world, { place: world.home, person: world.operator });
  await world.write(
    `insert into sign_in_links (hash, user_id, created_at, expires_at, purpose, maker_id)
     values ($1, $2, $3, $4, $5, $6)`,
    [digest(token), user_id, now, now + hour_ms, purpose, world.operator.user_id],
  );
  return token;
}

async function invitation(world: World, { place }: Owner): Promise<{ id: string; token: string }> {
  const token = makeToken('eat_', world.rig.random.bytes(32));
  const id = world.newId();
  const now = world.rig.clock.now();
  await world.write(
    `insert into invitations (id, tenant_id, role, hash, inviter_id, created_at, expires_at)
     values ($1, $2, 'viewer', $3, $4, $5, $6)`,
    [id, place.tenant_id, digest(token), world.operator.user_id, now, now + hour_ms],
  );
  return { id, token };
}

async function logIn(world: World): Promise<Asked> {
  const name = world.fresh();
  const { token } = await invitation(world, { place: world.home, person: world.operator });
  const body = { token, name, password };
  const joined = await ask(world.rig, 'POST', '/v1/join', { token: null, body });
  if (joined.status !== 201) throw new Error(joined.text);
  return { body: { name, password } };
}

/** Something small of the owner that leaves no trace in a timeline. */
async function requestOf(world: World, { person }: Owner): Promise<string> {
  const request_id = world.newId();
  await world.write(
    `insert into activity (id, tenant_id, at, user_id, actor, via, request_id, route, outcome,
       details)
     select $1, tenant_id, 1, id, 'user:' || name, 'token', $2, 'setSecret', 'done', '{}'
     from users where id = $3`,
    [world.newId(), request_id, person.user_id],
  );
  return request_id;
}

async function row(world: World, table: 'tokens' | 'sessions', user_id: string): Promise<string> {
  const id = world.newId();
  const hash = digest(id);
  const far = world.rig.clock.now() + hour_ms;
  await (table === 'tokens'
    ? world.write(
        `insert into tokens (id, user_id, name, hash, last_four, created_at)
         values ($1, $2, 'made', $3, 'abcd', 0)`,
        [id, user_id, hash],
      )
    : world.write(
        `insert into sessions (id, user_id, hash, created_at, last_used_at, expires_at)
         values ($1, $2, $3, $4, $4, $4)`,
        [id, user_id, hash, far],
      ));
  return id;
}

export const moreCases: Partial<Record<RouteName, Case>> = {
  // An operator names the tenant, too: without it, it is their own.
  listActivity: {
    ask: async (_, { person }) => ({ query: { user: person.name }, object: person.name }),
    reach: 'tenant',
    operator: false,
  },
};

export const accountCases: Partial<Record<RouteName, Case>> = {
  health: plain(),
  openapi: plain(),
  signIn: plain(async (world) => ({ body: { token: await link(world, 'sign-in') } })),
  signOut: plain(),
  logIn: plain(logIn),
  join: plain(async (world, owner) => {
    const { token } = await invitation(world, owner);
    return { body: { token, name: world.fresh(), password } };
  }),
  resetPassword: plain(async (world) => ({
    body: { token: await link(world, 'reset'), password },
  })),
  changePassword: plain(async (world, _, asking) => {
    await world.write('update users set password = null where id = $1', [asking.user_id]);
    return { body: { password } };
  }),
  whoAmI: plain(),
  createSignInLink: plain(),
  listUsers: queryTenant,
  showUser: user(),
  disableUser: user(),
  enableUser: ofTenant(async (world, owner) => {
    const { user_id } = await someUser(world, owner);
    await world.write('update users set disabled_at = 1 where id = $1', [user_id]);
    return { path: { user: user_id }, object: user_id };
  }),
  setRole: user({ role: 'member' }),
  createResetLink: user(),
  listTenants: plain(),
  createTenant: plain(async (world) => ({ body: { slug: world.fresh() } })),
  renameTenant: tenant({ name: 'another name' }),
  disableTenant: tenant(),
  enableTenant: ofTenant(async (world) => {
    const slug = world.fresh();
    const text = `insert into tenants (id, slug, name, created_at, disabled_at)
      values ($1, $2, $2, 0, 1)`;
    await world.write(text, [world.newId(), slug]);
    return { path: { tenant: slug }, object: slug };
  }),
  createInvitation: ofTenant(async (_, { place }) => ({
    body: { tenant: place.slug },
    object: place.slug,
  })),
  listInvitations: queryTenant,
  revokeInvitation: ofTenant(async (world, owner) => {
    const { id } = await invitation(world, owner);
    return { path: { invitation: id }, object: id };
  }),
  createToken: plain(async (world) => ({ body: { name: world.fresh() } })),
  listTokens: queryUser,
  revokeToken: ofUser(async (world, { person }) => {
    const token = await row(world, 'tokens', person.user_id);
    return { path: { token }, object: token };
  }),
  listSessions: queryUser,
  revokeSessions: ofUser(async (world, { person }) => {
    await row(world, 'sessions', person.user_id);
    return { query: { user: person.name }, object: person.name };
  }),
  revokeSession: ofUser(async (world, { person }) => {
    const session = await row(world, 'sessions', person.user_id);
    return { path: { session }, object: session };
  }),
  listSecrets: plain(),
  setSecret: plain(async () => ({ path: { secret: 'hf-token' }, body: { value: 'a value' } })),
  removeSecret: {
    reach: 'tenant',
    operator: false,
    ask: async ({ rig, fresh }, { place, person }) => {
      const name = fresh();
      const user = { tenant_id: place.tenant_id, user_id: person.user_id };
      await rig.apiDeps.secrets.set({ ...user, name, value: new Secret('a value') });
      return { path: { secret: name }, object: name };
    },
  },
  showQuota: ofTenant(async (_, { place }) => ({
    path: { tenant: place.slug },
    object: place.slug,
  })),
  setQuota: ofTenant(async (world, { place }) => ({
    path: { tenant: place.slug },
    // Another one each time: what changes nothing leaves no row.
    body: { limits: { workloads: 1e6 + Number(world.fresh().slice('fresh-'.length)) } },
    object: place.slug,
  })),
  listRequestLimits: queryTenant,
  setUserLimits: ofTenant(async (world, owner) => {
    const someone = await someUser(world, owner);
    return {
      path: { user: someone.user_id },
      body: { rpm: 1 + Number(world.fresh().slice('fresh-'.length)) },
      object: someone.user_id,
    };
  }),
  showUsage: queryTenant,
  showRequestUsage: queryTenant,
  listGatewayRequests: queryTenant,
  showGatewayTop: queryTenant,
  readMetrics: plain(),
  listActivity: queryTenant,
  listSeals: queryTenant,
  listAnchors: queryTenant,
  eraseActivity: ofTenant(async (world, owner) => {
    const someone = await someUser(world, owner);
    await requestOf(world, { ...owner, person: someone });
    return {
      path: { user: someone.user_id },
      query: { tenant: owner.place.slug },
      object: someone.user_id,
    };
  }),
  showRequest: ofUser(async (world, owner) => {
    const request = await requestOf(world, owner);
    return { path: { request }, object: request };
  }),
};
