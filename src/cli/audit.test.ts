/**
 * `einsora audit` and `einsora request` against a real API: what is shown, proved, and found.
 */
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { act, nextAction } from '../../test/lib/activity-tale.ts';
import { addTenant, addUser, ask, createRig, type Rig } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import { makeId } from '../core/ids.ts';

let rig: Rig;
let served: RigServer;
beforeEach(async () => {
  rig = await createRig();
  served = await serveRig(rig);
});
afterEach(async () => {
  await served.close();
  await rig.close();
});

const run = (argv: string[]) => runCli(argv, { data_dir: served.data_dir });
const write = (text: string) => rig.store.transact('write', { text, params: [] });

/** Three seals, the first two anchored. */
async function tell(): Promise<void> {
  const { sealer } = rig.apiDeps.activity;
  for (let number = 1; number <= 3; number += 1) {
    await act(rig, 2);
    await sealer.tick();
    if (number === 2) await sealer.anchor();
  }
}

test('ls shows who did what on what, newest first, and filters', async () => {
  await act(rig, 3);
  await act(rig, 1, { route: 'launch' });
  const { code, stdout } = await run(['audit', 'ls']);
  assert.equal(code, 0);
  const lines = stdout.trimEnd().split('\n');
  assert.match(lines[0] ?? '', /^WHEN +BY +VIA +ACTION +ON +OUTCOME +REQUEST$/);
  assert.match(lines[1] ?? '', / ada +token +launch +secret:s0 +done +[0-9a-z]{26}$/);
  assert.equal(lines.length, 5);
  const filtered = await run(['audit', 'ls', '--route', 'launch', '--user', 'ada', '--json']);
  assert.equal(JSON.parse(filtered.stdout).items.length, 1);
  const two = await run(['audit', 'ls', '--limit', '2', '--json']);
  assert.equal(JSON.parse(two.stdout).items.length, 2);
  const wrong = await run(['audit', 'ls', '--since', 'yesterday']);
  assert.equal(wrong.code, 2);
  const nobody = await run(['audit', 'ls', '--user', 'nobody']);
  assert.equal(nobody.code, 4);
});

test('verify proves the whole log, and tells what was changed', async () => {
  await tell();
  const whole = await run(['audit', 'verify']);
  assert.equal(whole.code, 0, whole.stderr);
  assert.match(whole.stdout, /✔ 6 rows under 3 seals are as they were sealed/);
  assert.match(whole.stdout, /anchors {2}1 holds, the newest of \d{4}-/);
  await write("update activity set outcome = 'forbidden' where seq = 3");
  const changed = await run(['audit', 'verify', '--json']);
  assert.equal(changed.code, 1);
  const report = JSON.parse(changed.stdout);
  assert.deepEqual([report.holds, report.problems[0].code], [false, 'seal_changed']);
  assert.match((await run(['audit', 'verify'])).stdout, /✘ seal_changed: rows 3 to 4 /);
});

test('an export is the same text each time, and proves itself without a control plane', async () => {
  await tell();
  const first = await run(['audit', 'export']);
  const second = await run(['audit', 'export']);
  assert.equal(first.stdout, second.stdout);
  const path = join(served.data_dir, 'log.jsonl');
  assert.equal((await run(['audit', 'export', '-o', path])).code, 0);
  assert.equal(readFileSync(path, 'utf8'), first.stdout);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  await served.close();
  const verified = await run(['audit', 'verify', path]);
  assert.equal(verified.code, 0, verified.stdout + verified.stderr);
  for (const [what, edit] of [
    ['a changed row', (text: string) => text.replace('"target":"secret:s1"', '"target":"x"')],
    ['a row less', (text: string) => text.replace(/\{[^\n]*"kind":"row"[^\n]*\n/, '')],
    ['a cut end', (text: string) => text.slice(0, -200)],
    ['no end at all', (text: string) => text.split('\n').slice(0, -2).join('\n')],
    ['a file of another kind', () => '{"kind":"row"}\n'],
    ['an empty file', () => ''],
  ] as const) {
    writeFileSync(path, edit(first.stdout));
    const { code } = await run(['audit', 'verify', path]);
    assert.equal(code, 1, what);
  }
  served = await serveRig(rig);
});

test('a part of the log proves itself too', async () => {
  await tell();
  const { sealer } = rig.apiDeps.activity;
  await rig.clock.advance(3600_000);
  const noon = new Date(rig.clock.now()).toISOString().slice(0, 19);
  await rig.clock.advance(3600_000);
  await act(rig, 2);
  await sealer.tick();
  await sealer.anchor();
  for (const [part, seals] of [
    [['--to', noon], 3],
    [['--from', noon], 1],
  ] as const) {
    const path = join(served.data_dir, `part-${seals}.jsonl`);
    const done = await run(['audit', 'export', ...part, '-o', path]);
    assert.match(done.stderr, new RegExp(`under ${seals} seals?, 1 anchor\\b`));
    assert.equal((await run(['audit', 'verify', path])).code, 0);
  }
});

test('anchors kept elsewhere tell of a log that was cut with its own anchors', async () => {
  await tell();
  const path = join(served.data_dir, 'activity-anchors.jsonl');
  const kept = join(served.data_dir, 'kept.jsonl');
  copyFileSync(path, kept);
  writeFileSync(path, '');
  await write('delete from activity where seq > 2');
  await write('delete from activity_seals where number > 1');
  assert.equal((await run(['audit', 'verify'])).code, 0);
  const found = await run(['audit', 'verify', '--anchors', kept]);
  assert.equal(found.code, 1);
  assert.match(found.stdout, /✘ log_truncated/);
  const other = await run(['audit', 'verify', '--anchors', kept, '--key', 'AAAA', '--json']);
  assert.equal(JSON.parse(other.stdout).problems[0].code, 'anchor_forged');
});

test('erase forgets a name, and says how many rows; a tenant admin may not', async () => {
  await tell();
  const done = await run(['audit', 'erase', 'ada', '--json']);
  assert.deepEqual(JSON.parse(done.stdout), { user: 'ada', rows: 6 });
  await rig.apiDeps.activity.sealer.tick();
  assert.equal((await run(['audit', 'verify'])).code, 0);
  assert.doesNotMatch((await run(['audit', 'export'])).stdout, /user:ada/);
  const { tenant_id } = rig.ids;
  const user = { tenant_id, name: 'adm', role: 'tenant-admin' } as const;
  const { token } = await addUser(rig.store, rig.random, user);
  assert.equal((await ask(rig, 'DELETE', '/v1/activity/users/adm', { token })).status, 403);
});

test('a tenant admin reads the log of their tenant, an operator any; another looks like none', async () => {
  await addTenant(rig.store, 'other', 'tenant-2');
  const eve = { tenant_id: 'tenant-2', name: 'eve', role: 'tenant-admin' } as const;
  const { token, user_id } = await addUser(rig.store, rig.random, eve);
  await act(rig, 1, { tenant_id: 'tenant-2', user_id, actor: 'user:eve' });
  await act(rig, 1);
  const count = async (path: string, by: string | undefined) =>
    (await ask(rig, 'GET', path, by === undefined ? {} : { token: by })).body.items?.length;
  assert.equal(await count('/v1/activity', token), 1);
  assert.equal(await count('/v1/activity?tenant=other', undefined), 1);
  for (const path of ['', '/seals', '/anchors']) {
    const foreign = await ask(rig, 'GET', `/v1/activity${path}?tenant=local`, { token });
    const none = await ask(rig, 'GET', `/v1/activity${path}?tenant=nothing`, { token });
    assert.equal(foreign.status, 404);
    assert.equal(foreign.body.error?.code, none.body.error?.code);
  }
  assert.equal((await ask(rig, 'GET', '/v1/activity?user=ada', { token })).status, 404);
});

test('request tells what it did, what it moved, and its lines in the log', async () => {
  const launched = await ask(rig, 'POST', '/v1/workloads', {
    body: { kind: 'endpoint', model: 'smollm2-135m', name: 'chat' },
    headers: { 'x-request-id': 'my-own-name' },
  });
  assert.equal(launched.status, 201, launched.text);
  const rows = (await ask(rig, 'GET', '/v1/activity')).body.items ?? [];
  const row = rows.find((one) => one.route === 'launch');
  assert.equal(row?.client_request_id, 'my-own-name');
  const id = String(row?.request_id);
  assert.notEqual(id, 'my-own-name');
  const line = { level: 30, time: 1, request_id: id, method: 'POST', path: '/v1/workloads' };
  const log = [{ ...line, status: 201, duration_ms: 7, msg: 'request' }, { request_id: 'x' }];
  const text = log.map((one) => JSON.stringify(one)).join('\n');
  writeFileSync(join(served.data_dir, 'einsora.log'), `${text}\nno json\n`);
  const { code, stdout } = await run(['request', id]);
  assert.equal(code, 0);
  assert.match(stdout, /answered {2}POST \/v1\/workloads with 201 after 7 ms/);
  assert.match(stdout, / op +token +launch +workload:/);
  assert.match(stdout, /^chat +pending +op +/m);
  const json = JSON.parse((await run(['request', id, '--json'])).stdout);
  assert.deepEqual([json.actions.length, json.events.length, json.log.length], [1, 1, 1]);
});

test('a request that only the log knows is told from it, an unknown one is not there', async () => {
  const id = makeId(1, rig.random.bytes(10));
  writeFileSync(
    join(served.data_dir, 'einsora.log'),
    `${JSON.stringify({ time: 1, request_id: id, status: 404, duration_ms: 1, msg: 'request' })}\n`,
  );
  const known = await run(['request', id]);
  assert.equal(known.code, 0);
  assert.match(known.stdout, /nothing that is in the activity log/);
  assert.equal((await run(['request', makeId(2, rig.random.bytes(10))])).code, 4);
  assert.equal((await run(['request', 'no-id'])).code, 2);
});

test('what another user did is not yours to see, unless you are their admin', async () => {
  const { tenant_id } = rig.ids;
  const action = await nextAction(rig);
  const note = { action, target: null, outcome: 'done', details: {} };
  await rig.store.transact('recordNotes', { notes: [note] });
  const statuses = [];
  for (const role of ['viewer', 'member', 'tenant-admin'] as const) {
    const { token } = await addUser(rig.store, rig.random, { tenant_id, name: role, role });
    const path = `/v1/requests/${action.request_id}`;
    statuses.push((await ask(rig, 'GET', path, { token })).status);
  }
  assert.deepEqual(statuses, [404, 404, 200]);
});
