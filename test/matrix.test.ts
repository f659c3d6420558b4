/**
 * The authorisation matrix: every route of the contract, asked by everybody, for what is theirs, a
 * colleague's and another tenant's.
 *
 * What is expected comes from the route's own row; whom an object is there for, from its case. What
 * is not there for somebody answers as if it did not exist, word for word.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AuthRow, areas, hasRole, type Role, type Scope } from '../src/contract/auth.ts';
import { type RouteName, routes } from '../src/contract/routes.ts';
import { makeToken } from '../src/core/token.ts';
import { addUser } from './lib/rig.ts';
import { asNothing, isWrite, sameFor, successOf, type Told, tell } from './matrix/asking.ts';
import { type Case, cases, more_cases, naming, type Owner } from './matrix/cases.ts';
import { createWorld, type Headers, type Person, type Place, type World } from './matrix/world.ts';

const world = {} as World;
before(async () => {
  Object.assign(world, await createWorld());
});
after(() => world.close());

const names = Object.keys(routes) as RouteName[];
const roles = ['viewer', 'member', 'tenant-admin'] as const;
const sides = ['own', "a colleague's", "another tenant's"] as const;
type Side = (typeof sides)[number];

function caseOf(name: RouteName): Case {
  const found = cases[name];
  assert.ok(found, `${name} has no case in test/matrix: say how to ask it, and who reaches what`);
  return found;
}

/** Whose object it is, from where the caller stands. */
function ownerOf(side: Side, place: Place, person: Person): Owner {
  const other = place === world.home ? world.away : world.home;
  if (side === 'own') return { place, person };
  if (side === "a colleague's") return { place, person: place.people.colleague };
  return { place: other, person: other.people.member };
}

/** What the route's row and its case say of a principal whose proof is whole. */
function expected(row: AuthRow, one: Case, role: Role, side: Side): 'done' | 403 | 404 {
  if (row.who !== 'user') return 'done';
  if (!hasRole(role, row.role)) return 403;
  if (one.reach === null || side === 'own') return 'done';
  if (side === "a colleague's") {
    return one.reach === 'tenant' || hasRole(role, 'tenant-admin') ? 'done' : 404;
  }
  return one.operator && role === 'operator' ? 'done' : 404;
}

for (const name of names) {
  const { auth } = routes[name];
  describe(`${name}: ${JSON.stringify(auth)}`, () => {
    // Attempts to sign in are counted by the minute, all callers together.
    before(() => world.rig.clock.advance(61_000));

    test('everybody with a whole proof, on each side', async () => {
      const one = caseOf(name);
      for (const place of [world.home, world.away, world.local]) {
        const people = place === world.local ? [world.operator] : roles.map((r) => place.people[r]);
        for (const person of people) {
          for (const side of sides) {
            await meet(name, one, { place, person, side });
            const more = more_cases[name];
            if (more !== undefined) await meet(name, more, { place, person, side });
          }
        }
      }
    });

    test('what proves nothing', async () => {
      for (const [who, headers] of await worthless()) {
        const owner = ownerOf('own', world.local, world.operator);
        const asked = await caseOf(name).ask(world, owner, world.operator);
        const told = await tell(world.rig, name, asked, headers);
        const wanted = auth.who === 'anyone' ? successOf(name) : 401;
        assert.equal(told.status, wanted, `${who}: ${JSON.stringify(told.body)}`);
      }
    });

    test('a token that is narrower than its user, and a page of another site', async () => {
      for (const [who, headers, wanted] of await narrowed(name)) {
        const owner = ownerOf('own', world.local, world.operator);
        const asked = await caseOf(name).ask(world, owner, world.operator);
        const told = await tell(world.rig, name, asked, headers);
        const said = told.code ?? (told.status === successOf(name) ? 'done' : String(told.status));
        assert.equal(said, wanted, who);
      }
    });
  });
}

type Meeting = { place: Place; person: Person; side: Side };

/** Asks by token, and for one's own by session too. */
async function meet(name: RouteName, one: Case, { place, person, side }: Meeting): Promise<void> {
  const { rig } = world;
  const wanted = expected(routes[name].auth, one, person.role, side);
  const owner = ownerOf(side, place, person);
  const who = `${person.name} for ${side}`;
  for (const via of side === 'own' ? ['token', 'session'] : ['token']) {
    const asked = await one.ask(world, owner, person);
    const headers = via === 'token' ? world.bearer(person) : await world.cookie(person);
    const told = await tell(rig, name, asked, headers);
    const what = `${who} by ${via}: ${JSON.stringify(told.body)}`;
    assert.equal(told.status, wanted === 'done' ? successOf(name) : wanted, what);
    if (wanted === 'done' && place !== world.local) namesNobody(told, place, what);
    if (wanted !== 404) continue;
    const nothing = asNothing(asked);
    const none = await tell(rig, name, nothing.asked, world.bearer(person));
    assert.equal(sameFor(told, asked.object ?? ''), sameFor(none, nothing.object), who);
  }
}

/** What somebody is shown holds no id and no name of the people of another tenant. */
function namesNobody(told: Told, own: Place, what: string): void {
  const text = JSON.stringify(told.body);
  for (const place of [world.home, world.away, world.local]) {
    if (place === own) continue;
    const people = Object.values(place.people).flatMap(({ user_id, name }) => [user_id, name]);
    for (const word of [place.tenant_id, ...people]) {
      assert.equal(text.includes(word), false, `${what} names ${word} of ${place.slug}`);
    }
  }
}

/** Everything that is nobody's proof, although it looks like an operator's. */
async function worthless(): Promise<[string, Headers][]> {
  const { rig, operator } = world;
  const now = rig.clock.now();
  const off = await fallen('off', 'update users set disabled_at = 1 where id = $1');
  const closed = await fallen(
    'closed',
    'update tenants set disabled_at = 1 where id = (select tenant_id from users where id = $1)',
  );
  const { cookie = '' } = await world.cookie(operator);
  const [cookie_name] = cookie.split('=');
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  const session = (session: object) => world.cookie(operator, { session });
  return [
    ['nobody', {}],
    ['an endpoint key', bearer(makeToken('ept_', rig.random.bytes(32)))],
    ['a machine by its id', bearer(rig.ids.machine_id)],
    ['an unknown token', bearer(makeToken('tsk_', rig.random.bytes(32)))],
    ['a token with a wrong checksum', bearer(`${operator.token.slice(0, -1)}0`)],
    ['a token twice', bearer(`${operator.token}, Bearer ${operator.token}`)],
    ['a token as basic', { authorization: `Basic ${operator.token}` }],
    ['a token as a cookie', { cookie: `${cookie_name}=${operator.token}` }],
    ['an expired token', await world.token(operator, { expires_at: now })],
    ['a revoked token', await world.token(operator, { revoked_at: now })],
    ['a disabled user', world.bearer(off)],
    ['a disabled user by session', await world.cookie(off)],
    ['a user of a disabled tenant', world.bearer(closed)],
    ['a user of a disabled tenant by session', await world.cookie(closed)],
    ['an expired session', await session({ expires_at: now })],
    ['an idle session', await session({ last_used_at: now - 13 * 3600_000 })],
    ['a revoked session', await session({ revoked_at: now })],
    ['two sessions', { cookie: `${cookie}; ${cookie}x` }],
    ['a session of another port', { cookie: cookie.replace('4600', '4601') }],
    ['a bad token beside a good session', { ...(await world.cookie(operator)), ...bearer('x') }],
  ];
}

/** An operator whose proofs worked until this was done to them. */
async function fallen(name: string, text: string): Promise<Person> {
  const tenant_id = world.newId();
  const slug = world.fresh();
  const made = 'insert into tenants (id, slug, name, created_at) values ($1, $2, $2, 0)';
  await world.write(made, [tenant_id, slug]);
  const person = await addOperator(tenant_id, `${name}-${slug}`);
  await world.write(text, [person.user_id]);
  return person;
}

async function addOperator(tenant_id: string, name: string): Promise<Person> {
  const { store, random } = world.rig;
  const made = await addUser(store, random, { tenant_id, name, role: 'operator' });
  return { ...made, name, role: 'operator' };
}

/** Proofs of the operator that hold for a part only, and what the route's row makes of them. */
async function narrowed(name: RouteName): Promise<[string, Headers, string][]> {
  const { auth } = routes[name];
  const { operator } = world;
  const token = (scopes: Scope[]) => world.token(operator, { scopes });
  const cross = async (headers: Headers) => world.cookie(operator, { headers });
  const cross_site = isWrite(name) && auth.who === 'user' ? 'cross_site' : 'done';
  const sites: [string, Headers, string][] = [
    ['a page of another site', await cross({ 'sec-fetch-site': 'cross-site' }), cross_site],
    ['a workload page', await cross({ 'sec-fetch-site': 'same-site' }), cross_site],
    ['another origin', await cross({ origin: 'http://evil.example' }), cross_site],
    ['no origin at all', await cross({}), cross_site],
    ['its own origin', await cross({ origin: 'http://localhost:4600' }), 'done'],
  ];
  if (auth.who !== 'user') return [];
  const { area } = auth;
  const whole = auth.whole === true ? 'token_too_narrow' : 'done';
  if (area === 'self') {
    return [...sites, ['a narrowed token', await token(['usage:read']), whole]];
  }
  const reads = auth.reads === true || !isWrite(name);
  const others = areas.filter((one) => one !== area).map((one): Scope => `${one}:write`);
  return [
    ...sites,
    ['all areas but its own', await token(others), 'scope_missing'],
    ['reading only', await token([`${area}:read`]), reads ? whole : 'scope_missing'],
    ['its own area', await token([`${area}:write`]), whole],
  ];
}

test('whatever a query can name is asked for by a case', async () => {
  for (const name of names) {
    const { request = {} } = routes[name] as { request?: { query?: unknown } };
    const { shape = {} } = (request.query ?? {}) as { shape?: Record<string, unknown> };
    const owner = ownerOf('own', world.local, world.operator);
    const asked = [caseOf(name), more_cases[name]].map((one) =>
      one?.ask(world, owner, world.operator),
    );
    const named = (await Promise.all(asked)).flatMap((one) => Object.keys(one?.query ?? {}));
    const missing = naming.filter((one) => one in shape && !named.includes(one));
    assert.deepEqual(missing, [], `${name}: another tenant's must look like none`);
  }
});

test('every case is of a route', () => {
  for (const name of Object.keys(cases)) assert.ok(names.includes(name as RouteName), name);
});
