/**
 * Files of a run over HTTP: any size, whole or not at all, for those who may.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { createExecRig, type ExecRig } from '../../../test/lib/exec-rig.ts';
import { addTenant, addUser, select } from '../../../test/lib/rig.ts';
import { limits } from '../../contract/limits.ts';
import { systemClock } from '../../lib/clock.ts';
import { seededRandom } from '../../lib/random.ts';

const given = {} as { rig: ExecRig; base: string };
before(async () => {
  const rig = await createExecRig();
  const base = `http://localhost:${rig.site.port}/v1/workloads/${rig.lab.id}/files`;
  Object.assign(given, { rig, base });
});
after(() => given.rig.close());

type Init = Parameters<typeof fetch>[1];

function ask(rest: string, init: Init = {}, token = given.rig.site.rig.token) {
  const headers = { authorization: `Bearer ${token}`, ...init.headers };
  return fetch(`${given.base}${rest}`, { ...init, headers });
}
const put = (path: string, body: string | Uint8Array<ArrayBuffer>, more = '') =>
  ask(`?path=${encodeURIComponent(path)}${more}`, { method: 'PUT', body });

test('what is put comes back: any bytes, over the limit of a JSON body, with its mode', async () => {
  const content = new Uint8Array(seededRandom(9).bytes(3_000_000));
  content.set([0, 0, 255, 0]);
  assert.equal((await put('/tmp/a ü b', content, '&mode=755')).status, 204);
  const answer = await ask(`?path=${encodeURIComponent('/tmp/a ü b')}`);
  assert.equal(answer.status, 200);
  assert.ok(Buffer.from(await answer.arrayBuffer()).equals(Buffer.from(content)));
  assert.equal(answer.headers.get('x-einsora-mode'), '755');
  assert.equal(answer.headers.get('content-type'), 'application/octet-stream');
  assert.equal(answer.headers.get('content-disposition'), 'attachment');
  assert.match(answer.headers.get('content-security-policy') ?? '', /sandbox/);
  const facts = await (await ask(`/facts?path=${encodeURIComponent('/tmp/a ü b')}`)).json();
  assert.deepEqual(
    { ...(facts as object), modified_at: 0 },
    {
      ...{ name: 'a ü b', kind: 'file', size: 3_000_000, mode: 0o755, modified_at: 0 },
    },
  );
});

test('a download goes on where it was cut off', async () => {
  await put('/tmp/digits', '0123456789');
  const rest = await ask('?path=/tmp/digits', { headers: { range: 'bytes=7-' } });
  assert.deepEqual([rest.status, await rest.text()], [206, '789']);
  assert.equal(rest.headers.get('content-range'), 'bytes 7-9/10');
  const end = await ask('?path=/tmp/digits', { headers: { range: 'bytes=10-' } });
  assert.deepEqual([end.status, await end.text()], [206, '']);
  const past = await ask('?path=/tmp/digits', { headers: { range: 'bytes=11-' } });
  assert.equal(past.status, 409);
  const odd = await ask('?path=/tmp/digits', { headers: { range: 'bytes=1-2,4-5' } });
  assert.deepEqual([odd.status, await odd.text()], [200, '0123456789']);
});

test('folders are made, listed page by page, and removed', async () => {
  assert.equal((await ask('/folders?path=/tmp/many', { method: 'POST' })).status, 204);
  const files = await given.rig.driver.files({
    ...{ workload_id: given.rig.lab.id, replica: 0, run_epoch: 1 },
  });
  for (let number = 0; number < 1100; number += 1) {
    const { Readable } = await import('node:stream');
    await files.write(`/tmp/many/f${String(number).padStart(4, '0')}`, Readable.from([]), 0o644);
  }
  type Page = { items: { name: string }[]; next_cursor: string | null };
  const first = (await (await ask('/entries?path=/tmp/many')).json()) as Page;
  assert.deepEqual([first.items.length, first.next_cursor], [1000, 'f0999']);
  const second = await ask(`/entries?path=/tmp/many&cursor=${first.next_cursor}`);
  const { items, next_cursor } = (await second.json()) as Page;
  assert.deepEqual([items.length, items[0]?.name, next_cursor], [100, 'f1000', null]);
  assert.equal((await ask('?path=/tmp/many', { method: 'DELETE' })).status, 409);
  assert.equal((await ask('?path=/tmp/many/f0000', { method: 'DELETE' })).status, 204);
});

test('what is not there and what may not be are told apart, with the name of the workload', async () => {
  const none = await ask('?path=/tmp/none');
  const { error } = (await none.json()) as { error: { code: string; message: string } };
  assert.deepEqual([none.status, error.code], [404, 'file_not_found']);
  assert.ok(error.message.includes(given.rig.lab.name));
  assert.equal((await ask('?path=relative')).status, 400);
  assert.equal((await ask('?path=/tmp')).status, 409);
  assert.equal((await ask('?path=/a%00b')).status, 400);
  assert.equal((await put('/tmp/x', 'x', '&mode=999')).status, 400);
  assert.equal((await ask('')).status, 400);
});

test('viewers, other tenants and strangers reach no file', async () => {
  const { rig } = given.rig.site;
  const { tenant_id } = rig.ids;
  await addTenant(rig.store, 'elsewhere', 'e'.repeat(26));
  const viewer = await addUser(rig.store, rig.random, { tenant_id, name: 'v', role: 'viewer' });
  const other = await addUser(rig.store, rig.random, {
    ...{ tenant_id: 'e'.repeat(26), name: 'o', role: 'operator' },
  });
  for (const [rest, method] of [
    ['?path=/tmp/digits', 'GET'],
    ['?path=/tmp/digits', 'PUT'],
    ['?path=/tmp/digits', 'DELETE'],
    ['/facts?path=/tmp/digits', 'GET'],
    ['/entries?path=/tmp', 'GET'],
    ['/folders?path=/tmp/n', 'POST'],
  ] as const) {
    assert.equal((await ask(rest, { method }, viewer.token)).status, 403, `${method} ${rest}`);
    assert.equal((await ask(rest, { method }, other.token)).status, 404, `${method} ${rest}`);
    assert.equal((await ask(rest, { method }, 'tsk_no')).status, 401, `${method} ${rest}`);
  }
});

test('an upload that is cut off leaves the old file', async () => {
  await put('/tmp/kept', 'the old one');
  const { site } = given.rig;
  const sent = request(`${given.base}?path=/tmp/kept`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${site.rig.token}`, 'content-length': '1000000' },
  });
  sent.on('error', () => {});
  await new Promise<void>((resolve) => sent.write('x'.repeat(100_000), () => resolve()));
  sent.destroy();
  await new Promise((resolve) => sent.once('close', resolve));
  assert.equal(await (await ask('?path=/tmp/kept')).text(), 'the old one');
});

test('one user has a bounded number of transfers at once', async () => {
  const { site } = given.rig;
  const { rig } = site;
  const { tenant_id } = rig.ids;
  const made = await addUser(rig.store, rig.random, { tenant_id, name: 'many', role: 'member' });
  const headers = { authorization: `Bearer ${made.token}`, 'content-length': '10' };
  const before = rig.apiDeps.revocations.watching();
  const open = Array.from({ length: limits.file_streams_per_user }, (_, number) => {
    const sent = request(`${given.base}?path=/tmp/many-${number}`, { method: 'PUT', headers });
    sent.on('error', () => {});
    sent.write('x');
    return sent;
  });
  const held = before + limits.file_streams_per_user;
  while (rig.apiDeps.revocations.watching() < held) await new Promise(setImmediate);
  assert.equal((await ask('?path=/tmp/digits', {}, made.token)).status, 429);
  for (const sent of open) sent.destroy();
  while (rig.apiDeps.revocations.watching() > before) await new Promise(setImmediate);
  assert.equal((await ask('?path=/tmp/digits', {}, made.token)).status, 200);
});

test('a transfer ends with the run it is of, and with the proof that opened it', async () => {
  const { site } = given.rig;
  for (const how of ['stopped', 'revoked'] as const) {
    const lab = await site.addNotebook();
    const { rig } = site;
    const { tenant_id } = rig.ids;
    const made = await addUser(rig.store, rig.random, { tenant_id, name: how, role: 'member' });
    const sent = request(`http://localhost:${site.port}/v1/workloads/${lab.id}/files?path=/tmp/x`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${made.token}`, 'content-length': '1000000' },
    });
    const broken = new Promise((resolve) => sent.once('error', resolve).once('response', resolve));
    await new Promise<void>((resolve) => sent.write('x'.repeat(1000), () => resolve()));
    while (rig.apiDeps.revocations.watching() === 0) await new Promise(setImmediate);
    const began = systemClock.monotonic();
    if (how === 'stopped') await site.move(lab, 'stopping');
    else rig.apiDeps.revocations.tell({ user_id: made.user_id });
    await broken;
    assert.ok(systemClock.monotonic() - began < 1200, how);
    sent.destroy();
  }
});

test('a change is in the activity log by its path alone', async () => {
  await put('/tmp/noted', 'hush-hush-4712');
  const rows = await select<{ details: string; target: string }>(
    given.rig.site.rig.store,
    "select details, target from activity where route = 'writeFile' order by id desc",
  );
  assert.ok(rows.some(({ details }) => details === '{"path":"/tmp/noted"}'));
  assert.ok(!JSON.stringify(rows).includes('hush'));
});

test('files of what was stopped for being idle wake it, and of what a person stopped do not', async () => {
  const { site, lab, woken } = given.rig;
  await put('/tmp/kept', 'here');
  const park = async (cause: string) => {
    await site.move(lab, 'stopped');
    const text = 'update workloads set park_cause = $2 where id = $1';
    await site.rig.store.transact('write', { text, params: [lab.id, cause] });
  };
  await park('user');
  assert.equal((await ask('?path=/tmp/kept')).status, 409);
  assert.deepEqual(woken, []);
  await park('idle');
  const answer = await ask('?path=/tmp/kept');
  assert.deepEqual([answer.status, await answer.text(), woken], [200, 'here', [lab.id]]);
});
