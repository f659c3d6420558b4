/**
 * WebSockets on the control plane's own host: who is let through to a handler, and for how long.
 */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { addUser, createRig, type Rig } from '../../test/lib/rig.ts';
import { EinsoraError } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import type { UpgradeRoute } from '../contract/upgrades.ts';
import { makeToken } from '../core/token.ts';
import { digest } from '../lib/secret.ts';
import { type Listening, listen } from './server.ts';
import { createUpgrades, type Upgrade } from './upgrades.ts';

const rows = {
  talk: {
    method: 'GET',
    path: '/v1/things/{thing}/talk',
    auth: { who: 'user', role: 'member', area: 'workloads' },
  },
  refuse: {
    method: 'GET',
    path: '/v1/refuse',
    auth: { who: 'user', role: 'viewer', area: 'workloads', reads: true },
  },
} as const satisfies Record<string, UpgradeRoute>;

const given = {} as { rig: Rig; listening: Listening; port: number };
const seen: Upgrade[] = [];

before(async () => {
  const rig = await createRig();
  const upgrades = createUpgrades<keyof typeof rows>(
    rig.apiDeps,
    {
      async talk(upgrade) {
        seen.push(upgrade);
        upgrade.socket.resume().once('end', () => upgrade.socket.destroy());
        upgrade.socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n');
      },
      async refuse() {
        throw new EinsoraError('not_found', { what: 'workload x' });
      },
    },
    rows,
  );
  const gateway = { handle: async () => {}, close: async () => {} };
  const listening = await listen(0, { ...rig, upgrades, gateway });
  Object.assign(given, { rig, listening, port: listening.port });
});
beforeEach(() => void seen.splice(0));
after(async () => {
  await given.listening.close();
  await given.rig.close();
});

type Shaken = { status: number; text: string; socket: Socket; closed: Promise<unknown> };

/** One handshake with these headers; resolves with the first answer. */
function shake(path: string, headers: Record<string, string | string[]> = {}): Promise<Shaken> {
  const all = {
    Host: `localhost:${given.port}`,
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    ...headers,
  };
  const lines = Object.entries(all).flatMap(([name, value]) =>
    [value].flat().map((one) => `${name}: ${one}`),
  );
  return new Promise((resolve, reject) => {
    const socket = connect(given.port, '127.0.0.1');
    const closed = new Promise((done) => socket.once('close', done));
    socket.once('error', reject);
    socket.once('data', (data) => {
      const text = data.toString();
      resolve({ status: Number(text.slice(9, 12)), text, socket, closed });
    });
    socket.write(`${[`GET ${path} HTTP/1.1`, ...lines, '', ''].join('\r\n')}`);
  });
}

const talk = '/v1/things/a%20b/talk?columns=80';
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

async function session(user_id = given.rig.ids.user_id): Promise<{ cookie: string; id: string }> {
  const { rig } = given;
  const cookie = rig.apiDeps.proofs.makeCookie().reveal();
  const id = digest(cookie).slice(0, 26);
  await rig.store.transact('write', {
    text: `insert into sessions (id, user_id, hash, created_at, last_used_at, expires_at, client,
      signed_in_by) values ($1, $2, $3, $4, $4, $5, '', 'link')`,
    params: [id, user_id, digest(cookie), rig.clock.now(), rig.clock.now() + 3600_000],
  });
  return { cookie: `einsora_session_4600=${cookie}`, id };
}

test('a token with the right reach gets to the handler, with what the path names', async () => {
  const { rig } = given;
  const { status, socket } = await shake(talk, bearer(rig.token));
  assert.equal(status, 101);
  assert.deepEqual(seen[0]?.params, { thing: 'a b' });
  assert.equal(seen[0]?.query.get('columns'), '80');
  assert.equal(seen[0]?.principal.user_name, 'op');
  socket.destroy();
});

test('who proves nothing, or too little, is refused in the shape of the API', async () => {
  const { rig } = given;
  const { tenant_id } = rig.ids;
  const viewer = await addUser(rig.store, rig.random, { tenant_id, name: 'eve', role: 'viewer' });
  const cases: [string, Record<string, string>, number, string][] = [
    ['nobody', {}, 401, 'sign_in_required'],
    ['an unknown token', bearer(makeToken('tsk_', rig.random.bytes(32))), 401, 'sign_in_required'],
    ['a key', bearer(makeToken('ept_', rig.random.bytes(32))), 401, 'sign_in_required'],
    ['a viewer', bearer(viewer.token), 403, 'forbidden'],
  ];
  for (const [who, headers, wanted, code] of cases) {
    const { status, text, closed } = await shake(talk, headers);
    assert.equal(status, wanted, who);
    assert.match(text, new RegExp(`"code":"${code}"`), who);
    assert.match(text, /"request_id":"[0-9a-z]{26}"/);
    await closed;
  }
  assert.equal(seen.length, 0);
});

test('a path without a row is not there, whoever asks; so is what a handler says is not', async () => {
  const { rig } = given;
  for (const path of [
    '/v1/things/a/talks',
    '/v1/things//talk',
    '/',
    '/v1/workloads',
    '/v1/refuse',
  ]) {
    const { status, text } = await shake(path, bearer(rig.token));
    assert.equal(status, 404, path);
    assert.match(text, /"code":"not_found"/);
  }
});

test('a session opens one from a page of ours alone, by its exact Origin', async () => {
  const { port } = given;
  const { cookie } = await session();
  const own = `http://localhost:${port}`;
  const refused: Record<string, string | string[]>[] = [
    {},
    { Origin: `http://w-01h00000000000000000000000.localhost:${port}` },
    { Origin: `http://localhost:${port + 1}` },
    { Origin: 'http://localhost' },
    { Origin: 'null' },
    { Origin: `http://127.0.0.1:${port}` },
    { Origin: `https://localhost:${port}` },
    { Origin: [own, own] },
    { Origin: own, 'Sec-Fetch-Site': 'same-site' },
    { Origin: own, 'Sec-Fetch-Site': 'cross-site' },
  ];
  for (const headers of refused) {
    const { status } = await shake(talk, { Cookie: cookie, ...headers });
    assert.equal(status, 403, JSON.stringify(headers));
  }
  assert.equal(seen.length, 0);
  const good = await shake(talk, { Cookie: cookie, Origin: own });
  assert.equal(good.status, 101);
  good.socket.destroy();
  // A token proves itself: whatever page a browser would be on.
  const by_token = await shake(talk, { ...bearer(given.rig.token), Origin: 'http://evil.example' });
  assert.equal(by_token.status, 101);
  by_token.socket.destroy();
});

test('a host that is not ours is refused before anything else', async () => {
  const { port, rig } = given;
  for (const host of [
    `evil.example:${port}`,
    `localhost.:${port}`,
    'localhost',
    `x.localhost:${port}`,
  ]) {
    assert.equal((await shake(talk, { ...bearer(rig.token), Host: host })).status, 421, host);
  }
  assert.equal(seen.length, 0);
});

test('it ends with the proof that opened it', async () => {
  const { rig, port } = given;
  const { cookie, id } = await session();
  const own = `http://localhost:${port}`;
  const { status, closed } = await shake(talk, { Cookie: cookie, Origin: own });
  assert.equal(status, 101);
  rig.apiDeps.revocations.tell({ proof_id: id });
  await closed;
});

test('a user has so many, and each that closes makes room', async () => {
  const { rig } = given;
  const { tenant_id } = rig.ids;
  const user = await addUser(rig.store, rig.random, { tenant_id, name: 'max', role: 'member' });
  const open: Shaken[] = [];
  for (let count = 0; count < limits.upgrades_per_user; count += 1) {
    open.push(await shake(talk, bearer(user.token)));
  }
  assert.ok(open.every(({ status }) => status === 101));
  assert.equal((await shake(talk, bearer(user.token))).status, 429);
  const held = seen[0]?.socket;
  const gone = new Promise((resolve) => held?.once('close', resolve));
  for (const { socket } of open) socket.destroy();
  await gone;
  const again = await shake(talk, bearer(user.token));
  assert.equal(again.status, 101);
  again.socket.destroy();
});

test('closing the listeners ends what was upgraded', async () => {
  const { rig } = given;
  const { status, closed } = await shake(talk, bearer(rig.token));
  assert.equal(status, 101);
  await given.listening.close();
  await closed;
});
