/**
 * The sites' part of the matrix: whom a site lets in, by every proof there is, and that its host
 * answers nothing of the control plane's own: no route, no page, no path of inference.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gatewayRoutes, routes } from '../src/contract/routes.ts';
import { upgradeRoutes } from '../src/contract/upgrades.ts';
import type { Role } from '../src/core/roles.ts';
import { makeToken } from '../src/core/token.ts';
import { digest } from '../src/lib/secret.ts';
import { addTenant, addUser } from './lib/rig.ts';
import {
  createSiteRig,
  type Notebook,
  raw,
  type SiteRig,
  startProgramServer,
} from './lib/site-rig.ts';

const reached: string[] = [];
const program = await startProgramServer((request, response) => {
  reached.push(`${request.method} ${request.url}`);
  response.end('of the program');
});
let site: SiteRig;
const labs = {} as Record<'home' | 'away', Notebook>;
type Person = { tenant: 'home' | 'away'; role: Role; user_id: string; token: string };
const people: Person[] = [];

before(async () => {
  site = await createSiteRig();
  site.dial.now = program.dial;
  const { rig } = site;
  await addTenant(rig.store, 'away', 'tenant-away');
  for (const [tenant, tenant_id] of [
    ['home', rig.ids.tenant_id],
    ['away', 'tenant-away'],
  ] as const) {
    for (const role of ['viewer', 'member', 'tenant-admin', 'operator'] as const) {
      const name = `${tenant}-${role}`;
      const made = await addUser(rig.store, rig.random, { tenant_id, name, role });
      people.push({ tenant, role, ...made });
    }
    const owner = people.find((one) => one.tenant === tenant && one.role === 'member');
    labs[tenant] = await site.addNotebook({ tenant_id, user_id: owner?.user_id ?? '' });
  }
});
after(async () => {
  await site.close();
  await program.close();
});

const visit = (lab: Notebook, lines: string[], path = '/', method = 'GET') => {
  reached.splice(0);
  return raw(site.port, [`${method} ${path} HTTP/1.1`, `Host: ${lab.host}`, ...lines]);
};

test('a member opens what is of their tenant; for others it is not there', async () => {
  for (const person of people) {
    const { cookie } = await site.addSession(person.user_id);
    const proofs: [string, Record<string, string>][] = [
      ['token', { authorization: `Bearer ${person.token}` }],
      ['session', { cookie, origin: site.origin, 'sec-fetch-site': 'same-origin' }],
    ];
    for (const [via, headers] of proofs) {
      for (const side of ['home', 'away'] as const) {
        const who = `${person.tenant} ${person.role} by ${via} at ${side}`;
        const path = `/v1/workloads/${labs[side].id}/access`;
        const { status } = await site.ask('POST', path, headers);
        const may = person.role === 'viewer' ? 403 : person.tenant === side ? 201 : 404;
        assert.equal(status, may, who);
        if (may !== 201) continue;
        const access = await site.open(labs[side], headers);
        assert.equal((await visit(labs[side], [`Cookie: ${access}`])).status, 200, who);
        const other = labs[side === 'home' ? 'away' : 'home'];
        assert.equal((await visit(other, [`Cookie: ${access}`])).status, 401, who);
        assert.deepEqual(reached, [], who);
      }
    }
  }
});

test('a token with other scopes opens nothing', async () => {
  const { rig } = site;
  const member = people.find(({ tenant, role }) => tenant === 'home' && role === 'member');
  for (const [scopes, wanted] of [
    ['workloads:write', 201],
    ['workloads:read', 403],
    ['machines:write usage:read', 403],
    ['no-such-scope', 403],
  ] as const) {
    const token = makeToken('tsk_', rig.random.bytes(32));
    await rig.store.transact('write', {
      text: `insert into tokens (id, user_id, name, hash, last_four, created_at, scopes)
        values ($1, $2, 'narrow', $3, '', 0, $4)`,
      params: [digest(token).slice(0, 26), member?.user_id ?? '', digest(token), scopes],
    });
    const headers = { authorization: `Bearer ${token}` };
    const { status } = await site.ask('POST', `/v1/workloads/${labs.home.id}/access`, headers);
    assert.equal(status, wanted, scopes);
  }
});

test('no proof of the control plane is one at a site', async () => {
  const { rig } = site;
  const operator = people.find(({ tenant, role }) => tenant === 'home' && role === 'operator');
  assert.ok(operator);
  const session = await site.addSession(operator.user_id);
  const value = session.cookie.split('=')[1] ?? '';
  const access = `einsora_access_${site.port}`;
  const ticket = await site.ticketFor(labs.home, { authorization: `Bearer ${operator.token}` });
  const nobody: [string, string[]][] = [
    ['nobody', []],
    ['a token', [`Authorization: Bearer ${operator.token}`]],
    ['a token as a cookie', [`Cookie: ${access}=${operator.token}`]],
    ['a session', [`Cookie: ${session.cookie}`]],
    ['a session by the name of access', [`Cookie: ${access}=${value}`]],
    ['a ticket as a cookie', [`Cookie: ${access}=${ticket}`]],
    ['a ticket as a bearer', [`Authorization: Bearer ${ticket}`]],
    ["the run's own token", [`Authorization: token token-of-${labs.home.id}.0.1`]],
    ['an endpoint key', [`Authorization: Bearer ${makeToken('ept_', rig.random.bytes(32))}`]],
    ['a made up cookie', [`Cookie: ${access}=${'a'.repeat(43)}`]],
    ['an empty cookie', [`Cookie: ${access}=`]],
  ];
  for (const [who, lines] of nobody) {
    const answer = await visit(labs.home, lines);
    assert.equal(answer.status, 401, who);
    assert.match(answer.body, /"code":"access_needed"/, who);
    assert.deepEqual(reached, [], who);
  }
});

test('every path of the control plane is the program’s own at a site', async () => {
  const lab = labs.home;
  const operator = people.find(({ tenant, role }) => tenant === 'home' && role === 'operator');
  const bearer = `Authorization: Bearer ${operator?.token}`;
  const access = await site.open(lab, { authorization: `Bearer ${operator?.token}` });
  const origin = [`Origin: ${lab.origin}`, 'Content-Length: 0'];
  const all = [...Object.values(routes), ...gatewayRoutes, ...Object.values(upgradeRoutes)];
  const paths = all.map(({ method, path }) => [method.toUpperCase(), path] as const);
  const pages = ['/', '/sign-in', '/join', `/open/${lab.id}`, '/assets/open.js', '/healthz'];
  for (const [method, path] of [...paths, ...pages.map((page) => ['GET', page] as const)]) {
    const filled = path.replace(/\{\w+\}/g, lab.id);
    const lines = method === 'GET' ? [bearer] : [bearer, ...origin];
    const without = await visit(lab, lines, filled, method);
    assert.equal(without.status, 401, `${method} ${path}`);
    assert.deepEqual(reached, [], path);
    const within = await visit(lab, [...lines, `Cookie: ${access}`], filled, method);
    assert.equal(within.status, 200, `${method} ${path}`);
    assert.match(within.body, /of the program/, path);
    assert.deepEqual(reached, [`${method} ${filled}`]);
  }
});
