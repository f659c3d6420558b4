/**
 * The activity log is complete: for every route of the contract, what was done is there once, what
 * changed nothing is not, what was looked at and what was refused are noted.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Role, roles } from '../src/contract/auth.ts';
import { type RouteName, routes } from '../src/contract/routes.ts';
import { isReading } from '../src/controlplane/activity.ts';
import { select } from './lib/rig.ts';
import { isWrite, successOf, type Told, tell } from './matrix/asking.ts';
import { cases, type Owner } from './matrix/cases.ts';
import { createWorld, type Person, type World } from './matrix/world.ts';

const world = {} as World;
before(async () => {
  Object.assign(world, await createWorld());
});
after(() => world.close());

const names = Object.keys(routes) as RouteName[];

type Line = { route: string; outcome: string; tenant_id: string; user_id: string | null };

async function rowsOf(told: Told): Promise<Line[]> {
  const text = 'select route, outcome, tenant_id, user_id from activity where request_id = $1';
  const rows = await select<Line>(world.rig.store, text, [told.request_id]);
  return rows.map((row) => ({ ...row }));
}

/** Asks by a session: signing out is nothing where there is none. */
async function done(name: RouteName, person = world.operator, headers = {}): Promise<Told> {
  const one = cases[name];
  assert.ok(one, `${name} has no case in test/matrix`);
  const owner: Owner = { place: world.local, person };
  const asked = await one.ask(world, owner, person);
  return tell(world.rig, name, asked, { ...(await world.cookie(person)), ...headers });
}

for (const name of names) {
  const { auth } = routes[name];
  describe(`${name}`, () => {
    before(() => world.rig.clock.advance(61_000));

    if (isWrite(name) && !isReading(name)) {
      test('what it did is in the log once, with the action', async () => {
        const told = await done(name);
        assert.equal(told.status, successOf(name), JSON.stringify(told.body));
        const rows = await rowsOf(told);
        assert.deepEqual(
          rows.map(({ route, outcome }) => [route, outcome]),
          [[name, 'done']],
        );
        if (auth.who === 'user') assert.equal(rows[0]?.user_id, world.operator.user_id);
        await world.rig.apiDeps.activity.sealer.tick();
        assert.equal((await rowsOf(told)).length, 1, 'and once only, after the notes are written');
      });
    }

    if (isWrite(name) && 'request' in routes[name] && hasKey(name)) {
      test('a repeat with the same Idempotency-Key leaves no second row', async () => {
        const one = cases[name];
        assert.ok(one);
        const owner: Owner = { place: world.local, person: world.operator };
        const asked = await one.ask(world, owner, world.operator);
        const headers = { 'idempotency-key': world.fresh() };
        const ask = async () =>
          tell(world.rig, name, asked, { ...(await world.cookie(world.operator)), ...headers });
        const first = await ask();
        const again = await ask();
        assert.deepEqual([first.status, again.status], [successOf(name), successOf(name)]);
        assert.equal((await rowsOf(first)).length, 1);
        assert.deepEqual(await rowsOf(again), []);
      });
    }

    if (isReading(name) && auth.who === 'user') {
      test('a look is noted, and a second one a moment later is the same look', async () => {
        const { sealer } = world.rig.apiDeps.activity;
        const one = cases[name];
        assert.ok(one);
        const owner: Owner = { place: world.local, person: world.operator };
        const asked = await one.ask(world, owner, world.operator);
        const headers = world.bearer(world.operator);
        const first = await tell(world.rig, name, asked, headers);
        assert.deepEqual(await rowsOf(first), [], 'not before the tick');
        const again = await tell(world.rig, name, asked, headers);
        await sealer.tick();
        assert.deepEqual(
          (await rowsOf(first)).map((row) => row.outcome),
          ['done'],
        );
        assert.deepEqual(await rowsOf(again), []);
      });
    }

    if (auth.who === 'user' && auth.role !== 'viewer') {
      test('who may not is noted with the code', async () => {
        const person = below(auth.role);
        const told = await done(name, person);
        assert.equal(told.status, 403);
        await world.rig.apiDeps.activity.sealer.tick();
        const { tenant_id } = world.local;
        const { user_id } = person;
        assert.deepEqual(await rowsOf(told), [
          { route: name, outcome: 'forbidden', tenant_id, user_id },
        ]);
      });
    }
  });
}

/** Somebody of the next lower role. */
function below(role: Role): Person {
  const lower = roles[roles.indexOf(role) - 1];
  assert.ok(lower !== undefined && lower !== 'operator');
  return world.local.people[lower];
}

/** Does the route take an Idempotency-Key? */
function hasKey(name: RouteName): boolean {
  const { request = {} } = routes[name] as { request?: { headers?: unknown } };
  const { shape = {} } = (request.headers ?? {}) as { shape?: Record<string, unknown> };
  return 'idempotency-key' in shape;
}

test("what does not exist is noted in the asker's own log, and a flood is counted", async () => {
  const { rig, away, home } = world;
  const path = { workload: (await owned()) ?? '' };
  const person = away.people.member;
  const headers = world.bearer(person);
  const first = await tell(rig, 'showWorkload', { path }, headers);
  for (let count = 0; count < 20; count += 1) await tell(rig, 'showWorkload', { path }, headers);
  assert.equal(first.status, 404);
  const { sealer } = rig.apiDeps.activity;
  await sealer.tick();
  await rig.clock.advance(61_000);
  await sealer.tick();
  const rows = await select<{ details: string; tenant_id: string }>(
    rig.store,
    `select details, tenant_id from activity where user_id = $1 and outcome = 'not_found'
     order by at`,
    [person.user_id],
  );
  assert.deepEqual(
    rows.map((row) => JSON.parse(row.details)),
    [{}, { more: 20 }],
  );
  assert.ok(rows.every((row) => row.tenant_id === away.tenant_id));

  async function owned() {
    const asked = await cases.showWorkload?.ask(
      world,
      { place: home, person: home.people.member },
      home.people.member,
    );
    return asked?.path?.workload;
  }
});

test('what nobody known did wrong is not in the log', async () => {
  const { rig } = world;
  const before = await select(rig.store, 'select count(*) as count from activity');
  for (const name of names) {
    if (routes[name].auth.who !== 'user') continue;
    const path = { workload: 'x', user: 'x' };
    const asked = isWrite(name) ? { path, body: {} } : { path };
    const needs = routes[name].path.match(/\{\w+\}/g) ?? [];
    if (needs.some((part) => part !== '{workload}' && part !== '{user}')) continue;
    assert.equal((await tell(rig, name, asked, {})).status, 401, name);
  }
  await rig.apiDeps.activity.sealer.tick();
  assert.deepEqual(await select(rig.store, 'select count(*) as count from activity'), before);
});
