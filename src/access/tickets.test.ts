/**
 * Tickets and what they become: once, in time, on their own host, for who may still.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { addTenant, addUser, everyValue, select } from '../../test/lib/rig.ts';
import { createSiteRig, type Notebook, raw, type SiteRig } from '../../test/lib/site-rig.ts';
import { limits } from '../contract/limits.ts';
import { makeToken } from '../core/token.ts';

const given = {} as { site: SiteRig; lab: Notebook };
before(async () => {
  const site = await createSiteRig();
  Object.assign(given, { site, lab: await site.addNotebook() });
});
after(() => given.site.close());

const write = (text: string, params: (string | number)[]) =>
  given.site.rig.store.transact('write', { text, params });

async function user(role: 'member' | 'viewer' = 'member') {
  const { rig } = given.site;
  const name = `u${rig.random.bytes(4).join('')}`;
  const made = await addUser(rig.store, rig.random, { ...rig.ids, name, role });
  return { ...made, headers: { authorization: `Bearer ${made.token}` } };
}

test('of sixty-four at once, one opens', async () => {
  const { site, lab } = given;
  const ticket = await site.ticketFor(lab);
  const answers = await Promise.all(
    Array.from({ length: 64 }, () => site.redeem(lab.host, ticket)),
  );
  const opened = answers.filter(({ status }) => status === 204);
  assert.equal(opened.length, 1);
  assert.equal(answers.filter(({ status }) => status === 401).length, 63);
  const cookie = /^set-cookie: (.*)\r$/im.exec(opened[0]?.head ?? '')?.[1] ?? '';
  const form = /^einsora_access_\d+=[\w-]{43}; Path=\/; Max-Age=28800; HttpOnly; SameSite=Lax$/;
  assert.match(cookie, form);
});

test('a ticket and a cookie are stored as hashes alone, and stand in no line of the log', async () => {
  const { site, lab } = given;
  const ticket = await site.ticketFor(lab);
  const cookie = await site.open(lab);
  const stored = (await everyValue(site.rig.store)).join('\n');
  const lines = JSON.stringify(site.rig.lines);
  for (const secret of [ticket, cookie.split('=')[1] ?? '']) {
    assert.ok(secret.length > 30);
    assert.equal(stored.includes(secret) || lines.includes(secret), false);
  }
});

test('late, on another host, or made up: it opens nothing', async () => {
  const { site, lab } = given;
  const other = await site.addNotebook();
  const ticket = await site.ticketFor(lab);
  assert.equal((await site.redeem(other.host, ticket)).status, 401);
  assert.equal((await site.redeem(lab.host, ticket)).status, 204, 'it was not burnt by that');
  const late = await site.ticketFor(lab);
  await site.rig.clock.advance(limits.access_ticket_ms);
  assert.equal((await site.redeem(lab.host, late)).status, 401);
  const made_up = makeToken('eat_', site.rig.random.bytes(32));
  for (const wrong of [made_up, made_up.slice(0, -1), '', 'x'.repeat(2000)]) {
    const answer = await site.redeem(lab.host, wrong);
    assert.equal(answer.status, 401, wrong);
    assert.match(answer.body, /"code":"access_ticket_spent"/);
  }
});

test('a one-time link that signs in is no ticket, and a ticket signs nobody in', async () => {
  const { site, lab } = given;
  const link = await site.rig.apiDeps.proofs.makeSignInLink(site.rig.ids.user_id);
  assert.equal((await site.redeem(lab.host, link.reveal())).status, 401);
  const token = await site.ticketFor(lab);
  const signed = await site.ask('POST', '/v1/session', {}, { token });
  assert.equal(signed.status, 401);
});

test('it is worth what its proof is worth by then', async () => {
  const { site, lab } = given;
  await site.rig.clock.advance(limits.access_ticket_ms);
  const cases: [string, string][] = [
    ['a revoked token', 'update tokens set revoked_at = 1 where user_id = $1'],
    ['a disabled user', 'update users set disabled_at = 1 where id = $1'],
    ['a viewer by now', "update users set role = 'viewer' where id = $1"],
    ['a token of a viewer by now', "update tokens set role = 'viewer' where user_id = $1"],
  ];
  for (const [what, text] of cases) {
    const { user_id, headers } = await user();
    const ticket = await site.ticketFor(lab, headers);
    await write(text, [user_id]);
    assert.equal((await site.redeem(lab.host, ticket)).status, 401, what);
  }
  const session = await site.addSession();
  const by_session = await site.ticketFor(lab, { cookie: session.cookie, origin: site.origin });
  await write('update sessions set revoked_at = 1 where id = $1', [session.id]);
  assert.equal((await site.redeem(lab.host, by_session)).status, 401);
});

test('it is of one run: a stop or a new run makes it worthless', async () => {
  const { site } = given;
  const lab = await site.addNotebook();
  const before_stop = await site.ticketFor(lab);
  await site.move(lab, 'stopped');
  assert.equal((await site.redeem(lab.host, before_stop)).status, 401);
  await site.move(lab, 'running');
  const before_run = await site.ticketFor(lab);
  await site.move(lab, 'running', 2);
  assert.equal((await site.redeem(lab.host, before_run)).status, 401);
});

test("another tenant's workload is not there, a viewer's is not theirs to open", async () => {
  const { site, lab } = given;
  const { rig } = site;
  const tenant_id = 'other-tenant';
  await addTenant(rig.store, 'other', tenant_id);
  const bob = await addUser(rig.store, rig.random, { tenant_id, name: 'bob', role: 'member' });
  const ask = (id: string, token: string) =>
    site.ask('POST', `/v1/workloads/${id}/access`, { authorization: `Bearer ${token}` });
  const theirs = await ask(lab.id, bob.token);
  const none = await ask(`${lab.id.slice(0, 20)}zzzzzz`, bob.token);
  assert.deepEqual([theirs.status, none.status], [404, 404]);
  assert.equal((await ask(lab.id, (await user('viewer')).token)).status, 403);
});

test('what does not run, or has no page, gives no ticket and says why', async () => {
  const { site } = given;
  const lab = await site.addNotebook();
  const ask = () =>
    site.ask('POST', `/v1/workloads/${lab.id}/access`, {
      authorization: `Bearer ${site.rig.token}`,
    });
  for (const state of ['queued', 'provisioning', 'stopping', 'stopped', 'failed']) {
    await site.move(lab, state);
    assert.deepEqual([(await ask()).status, (await ask()).body.error?.code], [409, 'not_ready']);
  }
  await site.move(lab, 'running');
  await write("update workloads set kind = 'instance' where id = $1", [lab.id]);
  assert.equal((await ask()).body.error?.code, 'no_site');
});

test('a user gets so many a minute', async () => {
  const { site, lab } = given;
  const { headers } = await user();
  for (let count = 0; count < limits.access_tickets_per_minute; count += 1) {
    await site.ticketFor(lab, headers);
  }
  const over = await site.ask('POST', `/v1/workloads/${lab.id}/access`, headers);
  assert.equal(over.body.error?.code, 'too_many_requests');
  await site.rig.clock.advance(limits.access_ticket_ms + 1);
  await site.ticketFor(lab, headers);
  const left = await select(site.rig.store, 'select hash from access_tickets');
  assert.ok(left.length < 5, 'old ones are thrown away');
});

test('only a write of the very origin spends a ticket', async () => {
  const { site, lab } = given;
  const ticket = await site.ticketFor(lab);
  const evil = await site.addNotebook();
  const refused: Record<string, string>[] = [
    { Origin: evil.origin, 'Sec-Fetch-Site': 'cross-site' },
    { Origin: evil.origin, 'Sec-Fetch-Site': 'same-origin' },
    { Origin: site.origin, 'Sec-Fetch-Site': 'cross-site' },
    { Origin: 'null' },
    { Origin: lab.origin, 'Sec-Fetch-Site': 'same-site' },
    { Origin: lab.origin, 'Sec-Fetch-Site': 'none' },
    { Origin: lab.origin.replace('http:', 'https:') },
  ];
  for (const headers of refused) {
    const { status } = await site.redeem(lab.host, ticket, headers);
    assert.equal(status, 403, JSON.stringify(headers));
  }
  const lines = (extra: string[]) => [
    'POST /.einsora/open HTTP/1.1',
    `Host: ${lab.host}`,
    ...extra,
  ];
  const body = JSON.stringify({ ticket });
  const length = `Content-Length: ${body.length}`;
  const json = 'Content-Type: application/json';
  assert.equal((await raw(site.port, lines([json, length]), body)).status, 403, 'no Origin at all');
  const form = lines([`Origin: ${lab.origin}`, length, 'Content-Type: text/plain']);
  assert.equal((await raw(site.port, form, body)).status, 401, 'no JSON');
  const get = ['GET /.einsora/open HTTP/1.1', `Host: ${lab.host}`];
  const page = await raw(site.port, get);
  assert.equal(page.status, 200);
  assert.match(page.head, /content-security-policy: default-src 'none'; style-src 'sha256-/i);
  for (const line of ['cache-control: no-store', 'referrer-policy: no-referrer']) {
    assert.ok(page.head.toLowerCase().includes(line), line);
  }
  assert.match(page.head, /cross-origin-opener-policy: same-origin/i);
  assert.equal((await site.redeem(lab.host, ticket)).status, 204);
});
