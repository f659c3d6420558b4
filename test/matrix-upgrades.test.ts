/**
 * The authorisation matrix of upgrades: every row of the contract, asked by everybody. A row
 * without a case here does not compile.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { exec_protocol } from '../src/contract/exec-frame.ts';
import { type UpgradeName, upgradeRoutes } from '../src/contract/upgrades.ts';
import { makeToken } from '../src/core/token.ts';
import { digest } from '../src/lib/secret.ts';
import { addTenant, addUser } from './lib/rig.ts';
import { createSiteRig, type Notebook, parseAnswer, type SiteRig } from './lib/site-rig.ts';

let site: SiteRig;
let mine: Notebook;
let foreign: Notebook;
const tokens: Record<string, string> = {};

before(async () => {
  site = await createSiteRig();
  const { rig } = site;
  const { tenant_id } = rig.ids;
  await addTenant(rig.store, 'away', 'tenant-away');
  for (const role of ['viewer', 'member', 'tenant-admin', 'operator'] as const) {
    tokens[role] = (await addUser(rig.store, rig.random, { tenant_id, name: role, role })).token;
  }
  const away = { tenant_id: 'tenant-away', name: 'other', role: 'tenant-admin' } as const;
  const other = await addUser(rig.store, rig.random, away);
  tokens.foreign = other.token;
  mine = await site.addNotebook();
  foreign = await site.addNotebook({ tenant_id: 'tenant-away', user_id: other.user_id });
});
after(() => site.close());

/** What a client of each says besides. */
const said: Record<UpgradeName, Record<string, string>> = {
  exec: { 'Sec-WebSocket-Protocol': exec_protocol },
  ssh: {},
};

/** The first answer to an opening handshake. */
function shake(name: UpgradeName, workload: string, headers: Record<string, string>) {
  const { path, speaks = 'websocket' } = upgradeRoutes[
    name
  ] as (typeof upgradeRoutes)[UpgradeName] & {
    speaks?: string;
  };
  const all = {
    ...{ Host: `localhost:${site.port}`, Connection: 'Upgrade', Upgrade: speaks },
    ...{ 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==' },
    ...said[name],
    ...headers,
  };
  const lines = Object.entries(all).map(([key, value]) => `${key}: ${value}`);
  const url = path.replace('{workload}', workload);
  return new Promise<ReturnType<typeof parseAnswer>>((resolve, reject) => {
    const socket = connect(site.port, '127.0.0.1');
    socket.once('error', reject);
    let text = '';
    socket.on('data', (data) => {
      text += data.toString('latin1');
      if (text.startsWith('HTTP/1.1 101') || text.endsWith('}')) {
        resolve(parseAnswer(text));
        socket.destroy();
      }
    });
    socket.once('close', () => resolve(parseAnswer(text)));
    socket.write(`GET ${url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  });
}

const by = (who: string) => ({ authorization: `Bearer ${tokens[who]}` });
/** Without what differs from one answer to the next. */
const told = (body: string) =>
  body.replaceAll(/"request_id":"[^"]*"/g, '').replaceAll(/[0-9a-z]{26}|nothing/g, 'it');

for (const name of Object.keys(upgradeRoutes) as UpgradeName[]) {
  test(`${name}: who may write workloads gets in, a viewer does not`, async () => {
    for (const who of ['member', 'tenant-admin', 'operator']) {
      assert.equal((await shake(name, mine.id, by(who))).status, 101, who);
    }
    assert.equal((await shake(name, mine.id, by('viewer'))).status, 403);
  });

  test(`${name}: another tenant's workload is not there, word for word`, async () => {
    const nothing = await shake(name, 'nothing', by('operator'));
    assert.equal(nothing.status, 404);
    for (const [who, workload] of [
      ['member', foreign.id],
      ['operator', foreign.id],
      ['foreign', mine.id],
    ] as const) {
      const answer = await shake(name, workload, by(who));
      assert.equal(answer.status, 404, who);
      assert.equal(told(answer.body), told(nothing.body));
    }
  });

  test(`${name}: what proves nothing is turned away`, async () => {
    const made = makeToken('tsk_', site.rig.random.bytes(32));
    const key = makeToken('ept_', site.rig.random.bytes(32));
    for (const headers of [
      {},
      { authorization: `Bearer ${made}` },
      { authorization: `Bearer ${key}` },
      { cookie: 'einsora_session_4600=x' },
    ] as Record<string, string>[]) {
      assert.equal((await shake(name, mine.id, headers)).status, 401, JSON.stringify(headers));
    }
  });

  test(`${name}: a token without the scope is turned away`, async () => {
    const { rig } = site;
    for (const [scopes, status] of [
      ['workloads:read', 403],
      ['machines:write', 403],
      ['machines:read workloads:write', 101],
    ] as const) {
      const token = makeToken('tsk_', rig.random.bytes(32));
      await rig.store.transact('write', {
        text: `insert into tokens (id, user_id, name, hash, last_four, created_at, scopes)
          values ($1, $2, 'narrow', $3, '0000', 0, $4)`,
        params: [token.slice(-20), rig.ids.user_id, digest(token), scopes],
      });
      const answer = await shake(name, mine.id, { authorization: `Bearer ${token}` });
      assert.equal(answer.status, status, scopes);
    }
  });

  test(`${name}: a page of another site gets nowhere with the browser's cookie`, async () => {
    const { cookie } = await site.addSession();
    for (const origin of ['http://evil.example', mine.origin, 'null']) {
      assert.equal((await shake(name, mine.id, { cookie, origin })).status, 403, origin);
    }
    assert.equal((await shake(name, mine.id, { cookie })).status, 403);
    const spoken = { cookie, origin: site.origin, 'sec-fetch-site': 'cross-site' };
    assert.equal((await shake(name, mine.id, spoken)).status, 403);
  });

  test(`${name}: nobody goes into an endpoint on a machine of somebody else`, async () => {
    const { store } = site.rig;
    // Its machine is of the rig's own tenant, its owner is not.
    const write = (text: string) => store.transact('write', { text, params: [foreign.id] });
    await write("update workloads set kind = 'endpoint' where id = $1");
    const answer = await shake(name, foreign.id, by('foreign'));
    assert.equal(answer.status, 409);
    assert.match(answer.body, /"no_shell"/);
    await write("update workloads set kind = 'notebook' where id = $1");
  });

  test(`${name}: on the host of a workload's site there is no such thing`, async () => {
    const answer = await shake(name, mine.id, { ...by('operator'), Host: mine.host });
    assert.notEqual(answer.status, 101);
  });
}
