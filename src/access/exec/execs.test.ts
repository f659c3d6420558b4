/**
 * Programs beside runs over real WebSockets: what is carried, who is refused, how it ends.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createExecRig, type ExecClient, type ExecRig } from '../../../test/lib/exec-rig.ts';
import { addTenant, addUser, select } from '../../../test/lib/rig.ts';
import { exec_window_bytes } from '../../contract/exec-frame.ts';
import { systemClock } from '../../lib/clock.ts';

const given = {} as { rig: ExecRig };
before(async () => {
  given.rig = await createExecRig();
});
after(() => given.rig.close());

const start = (...argv: string[]) => ({ type: 'start', argv });

async function started(message: object, headers?: Record<string, string>): Promise<ExecClient> {
  const client = given.rig.dial(given.rig.lab.id, headers);
  await client.opened;
  client.tell(message);
  await client.until(() => client.said.some(({ type }) => type === 'started'));
  return client;
}

async function statusOf(client: ExecClient): Promise<string> {
  return client.opened.then(
    () => 'open',
    (error: Error) => error.message,
  );
}

test('output comes on its channel, and the end is said after it', async () => {
  const client = await started(start('sh', '-c', 'echo out; echo err >&2; exit 7'));
  assert.equal(await client.closed, 1000);
  assert.equal(client.out(), 'out\n');
  assert.equal(Buffer.concat(client.bytes.stderr).toString(), 'err\n');
  assert.deepEqual(client.said.at(-1), { type: 'exit', code: 7, signal: null });
});

test('stdin goes in, is acknowledged, and closed by its half', async () => {
  const client = await started(start('cat'));
  client.type('some ü ');
  client.type('bytes');
  client.tell({ type: 'close-stdin' });
  await client.closed;
  assert.equal(client.out(), 'some ü bytes');
  const acks = client.said.filter(({ type }) => type === 'ack');
  const taken = acks.reduce((sum, one) => sum + ('bytes' in one ? one.bytes : 0), 0);
  assert.equal(taken, Buffer.byteLength('some ü bytes'));
});

test('a terminal is resized, and its shell answers what is typed', async () => {
  const terminal = { columns: 90, rows: 20 };
  const client = await started({ type: 'start', argv: [], terminal });
  client.tell({ type: 'resize', columns: 44, rows: 14 });
  client.type('stty size\nexit 3\n');
  await client.closed;
  assert.match(client.out(), /14 44/);
  assert.deepEqual(client.said.at(-1), { type: 'exit', code: 3, signal: null });
});

test('a client that takes nothing is sent one window and no more, and gets the rest later', async () => {
  const size = 3 * exec_window_bytes;
  const client = await started(start('head', '-c', String(size), '/dev/zero'));
  const got = () => Buffer.concat(client.bytes.stdout).length;
  await client.until(() => got() === exec_window_bytes);
  // A message overtakes bytes that wait: it is answered while nothing is taken.
  client.tell({ type: 'resize', columns: 10, rows: 10 });
  const pinged = new Promise((resolve) => client.ws.once('pong', resolve));
  client.ws.ping();
  await pinged;
  assert.equal(got(), exec_window_bytes);
  for (let taken = 0; taken < size; taken += exec_window_bytes) {
    await client.until(() => got() === taken + exec_window_bytes);
    client.tell({ type: 'ack', bytes: exec_window_bytes });
  }
  await client.closed;
  assert.equal(got(), size);
  assert.deepEqual(client.said.at(-1), { type: 'exit', code: 0, signal: null });
});

test('what the protocol does not allow is refused by name, and ends the program', async () => {
  const cases: [string, (client: ExecClient) => void][] = [
    ['more was acknowledged', (client) => client.tell({ type: 'ack', bytes: 1 })],
    ['not understood', (client) => client.tell({ type: 'dance' })],
    ['not understood', (client) => client.tell({ type: 'resize', columns: -1, rows: 1 })],
    ['started already', (client) => client.tell(start('true'))],
    ['only stdin', (client) => client.ws.send(Buffer.from([1, 65]))],
    ['only stdin', (client) => client.ws.send(Buffer.from([9, 65]))],
    [
      'its window',
      (client) => {
        for (let sent = 0; sent <= exec_window_bytes; sent += 100_000) {
          client.type(Buffer.alloc(100_000));
        }
      },
    ],
  ];
  for (const [problem, misbehave] of cases) {
    const client = await started(start('sleep', '1000'));
    misbehave(client);
    await client.closed;
    const last = client.said.at(-1);
    assert.equal(last?.type === 'error' && last.code, 'bad_request', problem);
    assert.ok(last?.type === 'error' && last.message.includes(problem), JSON.stringify(last));
    assert.notEqual((await given.rig.sessions.at(-1)?.exited)?.code, 0);
  }
  const large = await started(start('sleep', '1000'));
  large.ws.send('x'.repeat(300 * 1024));
  assert.equal(await large.closed, 1009);
  assert.notEqual((await given.rig.sessions.at(-1)?.exited)?.code, 0);
});

test('who does not begin with a start is told so', async () => {
  for (const first of [
    '{"type":"ack","bytes":1}',
    'no json',
    '{"type":"start","argv":["a\\u0000"]}',
  ]) {
    const client = given.rig.dial(given.rig.lab.id);
    await client.opened;
    client.ws.send(first);
    await client.closed;
    const last = client.said.at(-1);
    assert.equal(last?.type === 'error' && last.code, 'bad_request');
  }
});

test('a program ends with the connection that started it', async () => {
  const client = await started(start('sleep', '1000'));
  client.ws.terminate();
  const how = await given.rig.sessions.at(-1)?.exited;
  assert.deepEqual(how, { code: null, signal: 'SIGKILL' });
});

test('a stop, and a new run, cut it within a second, with the reason', async () => {
  const { site } = given.rig;
  for (const change of ['stopped', 'new run'] as const) {
    const lab = await site.addNotebook();
    const client = given.rig.dial(lab.id);
    await client.opened;
    client.tell(start('sleep', '1000'));
    await client.until(() => client.said.length > 0);
    const began = systemClock.monotonic();
    if (change === 'stopped') await site.move(lab, 'stopping');
    else await site.move(lab, 'running', 2);
    await client.closed;
    assert.ok(systemClock.monotonic() - began < 1500, change);
    const last = client.said.at(-1);
    assert.equal(last?.type === 'error' && last.code, 'stream_cut');
    assert.equal((await given.rig.sessions.at(-1)?.exited)?.signal, 'SIGKILL');
  }
});

test('it ends with the proof that opened it', async () => {
  const { site } = given.rig;
  const { rig } = site;
  const made = await addUser(rig.store, rig.random, {
    ...{ tenant_id: rig.ids.tenant_id, name: 'gone', role: 'member' },
  });
  const client = await started(start('sleep', '1000'), { authorization: `Bearer ${made.token}` });
  const began = systemClock.monotonic();
  rig.apiDeps.revocations.tell({ user_id: made.user_id });
  await client.closed;
  assert.ok(systemClock.monotonic() - began < 1000);
  const last = client.said.at(-1);
  assert.equal(last?.type === 'error' && last.code, 'stream_cut');
});

test('viewers, strangers and other tenants are refused, as is what does not run', async () => {
  const { site, lab, dial } = given.rig;
  const { rig } = site;
  const { tenant_id } = rig.ids;
  await addTenant(rig.store, 'others', 'o'.repeat(26));
  const viewer = await addUser(rig.store, rig.random, { tenant_id, name: 'v', role: 'viewer' });
  const other = await addUser(rig.store, rig.random, {
    ...{ tenant_id: 'o'.repeat(26), name: 'o', role: 'operator' },
  });
  const as = ({ token }: { token: string }) => ({ authorization: `Bearer ${token}` });
  assert.equal(await statusOf(dial(lab.id, as(viewer))), '403');
  assert.equal(await statusOf(dial(lab.id, as(other))), '404');
  assert.equal(await statusOf(dial('none', as(other))), '404');
  assert.equal(await statusOf(dial(lab.id, {})), '401');
  assert.equal(await statusOf(dial('no-such')), '404');
  assert.equal(await statusOf(dial(lab.id, undefined, 'another')), '400');
  const { cookie } = await site.addSession();
  assert.equal(await statusOf(dial(lab.id, { cookie, origin: 'http://evil.localhost' })), '403');
  assert.equal(await statusOf(dial(lab.id, { cookie })), '403');
  const own = dial(lab.id, { cookie, origin: site.origin });
  assert.equal(await statusOf(own), 'open');
  own.ws.terminate();
  const stopped = await site.addNotebook();
  await site.move(stopped, 'stopped');
  assert.equal(await statusOf(dial(stopped.id)), '409');
});

test('the activity log names the program, and nothing that was given to it or printed', async () => {
  const client = await started(start('sh', '-c', 'echo hush-hush-4711'));
  await client.closed;
  const rows = await select<{ target: string; details: string; actor: string }>(
    given.rig.site.rig.store,
    "select target, details, actor from activity where route = 'exec' order by id desc",
  );
  assert.deepEqual(JSON.parse(rows[0]?.details ?? ''), { program: 'sh' });
  assert.equal(rows[0]?.target, `workload:${given.rig.lab.id}`);
  assert.ok(!JSON.stringify(rows).includes('hush'));
  assert.ok(given.rig.site.touched.includes(given.rig.lab.id));
});
