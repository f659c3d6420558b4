/**
 * `einsora usage` and `einsora quota` against a real API.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { requestRecord } from '../../test/lib/request-records.ts';
import { ask, createRig, gib, inventoryOf, type Rig, select } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import { rowOfRecord } from '../gateway/records/rows.ts';

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

const run = (...args: string[]) => runCli(args, { data_dir: served.data_dir });

async function used(name: string, hours: number): Promise<void> {
  const { machine_id } = rig.ids;
  const body = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-2c-4g', name };
  const { body: made } = await ask(rig, 'POST', '/v1/workloads', { body });
  const cause = () => ({
    ...{ now: rig.clock.now(), mono: rig.clock.monotonic() },
    ...{ actor: 'test', request_id: 'r' },
  });
  const report = (state: 'ready' | 'parked') => {
    const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
    const observed = [{ workload_id: String(made.id), replica: 0, run_epoch: 1, state, ...facts }];
    const heard = { mono: rig.clock.monotonic(), runs: [`${made.id}.0.1`] };
    const machine = { machine_id, machine_name: 'desk', heard };
    return rig.store.transact('applyReport', { ...cause(), ...machine, observed });
  };
  await rig.store.transact('placeWorkload', {
    ...cause(),
    ...{ workload_id: String(made.id), revision: 1 },
    placement: {
      ...{ machine_id, machine_name: 'desk', driver: 'sim', isolation: 'weak' },
      placed_class: 'cpu-2c-4g',
    },
  });
  await report('ready');
  await rig.clock.advance(hours * 3600_000);
  await report('parked');
}

test('usage is a table in hours, the most first, with a total and no price', async () => {
  const inventory = inventoryOf({ cpu_millis: 8000, memory_bytes: 16 * gib });
  await rig.sync.hello(rig.ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
  await used('little', 1);
  await used('much', 20);
  const { code, stdout, stderr } = await run('usage', '--by', 'workload');
  assert.equal(code, 0, stderr);
  assert.match(
    stderr,
    /^Usage of local from \d{4}-\d\d-\d\d \d\d:\d\d to .* \(UTC\), in hours:\n$/,
  );
  assert.equal(
    stdout,
    [
      'WORKLOAD  METERED   HELD    CPU  GPU  MEMORY (GiB)',
      'much        20.00  20.00  40.00    0         80.00',
      'little       1.00   1.00   2.00    0          4.00',
      'total       21.00  21.00  42.00    0         84.00',
      '',
    ].join('\n'),
  );
  const json = JSON.parse((await run('usage', '--by', 'class', '--json')).stdout);
  assert.deepEqual([json.total.metered_ms, json.items[0].key], [21 * 3600_000, 'cpu-2c-4g']);
});

/** Requests by a key of the endpoint `chat`, as if they had been asked yesterday. */
async function asked(): Promise<string> {
  const body = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g', name: 'chat' };
  const { body: made } = await ask(rig, 'POST', '/v1/workloads', { body });
  const { body: key } = await ask(rig, 'POST', '/v1/workloads/chat/keys', { body: {} });
  const base = { key_id: String(key.id), tenant_id: rig.ids.tenant_id, user_id: rig.ids.user_id };
  const ids = ['a', 'b', 'c'].map((last) => last.padStart(26, '0'));
  const records = ids.map((request_id, index) =>
    requestRecord({
      ...{ ...base, request_id, workload_id: String(made.id), model: 'chat' },
      ...{ at: rig.clock.now() - 24 * 3600_000, attempts: index + 1 },
      ...(index === 2 ? { outcome: 'cut', code: 'engine_cut', first_token_ms: 2500 } : {}),
    }),
  );
  const rows = records.map(rowOfRecord);
  await rig.store.transact('recordRequests', { rows, lost: 0, now: rig.clock.now() });
  return ids[2] ?? '';
}

test('requests are a table by model and key, and beside the hours of users', async () => {
  await asked();
  const { code, stdout, stderr } = await run('usage', '--by', 'model');
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^Requests of local to endpoints, \d{4}-\d\d-\d\d to .* \(UTC\):\n$/);
  const [headings = '', row = '', total = ''] = stdout.split('\n');
  assert.match(headings, /^MODEL +REQUESTS +ANSWERED +REFUSED +CUT +LEFT +TOKENS IN +OUT /);
  assert.match(row, /^chat +3 +2 +0 +1 +0 +21 +15 +0% +\d+ ms +\d+ ms$/);
  assert.match(total, /^total +3 /);
  assert.match((await run('usage', '--by', 'key')).stdout, /^….{4} \(chat\) +3 /m);
  const users = await run('usage');
  assert.match(users.stdout, /^USER +REQUESTS.*^total +3 /ms);
  const json = JSON.parse((await run('usage', '--by', 'day', '--json')).stdout);
  assert.deepEqual([json.total.held_ms, json.requests.total.requests], [0, 3]);
  const none = await run('usage', '--by', 'guest');
  assert.match(none.stderr, /Nothing was asked of an endpoint\.\n$/);
});

test('request says what was asked of a model, and how it ended', async () => {
  const id = await asked();
  const { code, stdout, stderr } = await run('request', id);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^asked +chat by the key ….{4}, chat$/m);
  assert.match(stdout, /^engine +cpu-1, the last of 3 that were asked$/m);
  assert.match(stdout, /^ended +cut \(engine_cut\)$/m);
  assert.match(stdout, /^tokens +7 in \(2 of them cached\), 5 out$/m);
  assert.match(stdout, /^took +90 ms, first content after 2500 ms$/m);
  assert.doesNotMatch(stdout, /nothing that is in the activity log/);
});

test('request ls shows single requests, newest first, and what failed alone', async () => {
  const id = await asked();
  const { code, stdout, stderr } = await run('request', 'ls');
  assert.equal(code, 0, stderr);
  const [headings = '', first = '', ...others] = stdout.trim().split('\n');
  assert.match(headings, /^WHEN +MODEL +KEY +OUTCOME +TOKENS IN +OUT +FIRST +TOOK +BY +REQUEST$/);
  assert.equal(others.length, 2);
  assert.match(first, /^.* chat +….{4} +cut \(engine_cut\) +7 +5 +2500 ms +90 ms +cpu-1 +\w{26}$/);
  assert.ok(first.endsWith(id));
  const failed = JSON.parse((await run('request', 'ls', '--failed', '--json')).stdout);
  assert.deepEqual(
    failed.items.map((one: { request_id: string; outcome: string }) => [
      one.request_id,
      one.outcome,
    ]),
    [[id, 'cut']],
  );
  const four = /…(.{4})/.exec(first)?.[1] ?? '';
  assert.equal(
    (await run('request', 'ls', '--key', four, '--limit', '1')).stdout.trim().split('\n').length,
    2,
  );
  const none = await run('request', 'ls', '--model', 'other');
  assert.match(none.stderr, /Nothing was asked of a model that fits\./);
  const unknown = await run('request', 'ls', '--key', 'nope');
  assert.equal(unknown.code, 4);
  assert.match(unknown.stderr, /fix: .*keys ls/);
  assert.match((await run('request', 'no-id')).stderr, /fix: .*request ls/);
});

test('gateway top prints once where it may not stay, and says what was lost', async () => {
  const idle = await run('gateway', 'top');
  assert.deepEqual([idle.code, idle.stdout], [0, '']);
  assert.match(idle.stderr, /Nothing was asked in the last minute\./);
  await asked();
  const requests = await rig.startRequests();
  await rig.clock.advance(5000);
  const key = (await select<{ id: string }>(rig.store, 'select id from endpoint_keys'))[0]?.id;
  requests.record(requestRecord({ key_id: key ?? '', model: 'chat' }));
  const { stdout, stderr } = await run('gateway', 'top', '--once');
  assert.match(stdout, /^MODEL +REQ\/S +TOKENS\/S .*\nchat +0\.2 +1 +- +- +- +\d+ ms +\d+ ms$/m);
  assert.match(stdout, /^….{4} \(chat\) +0\.2 /m);
  assert.match(stderr, /Requests of local, rates of the last 5 s/);
  const json = JSON.parse((await run('gateway', 'top', '--json')).stdout);
  assert.deepEqual([json.models[0].name, json.journal.lost], ['chat', 0]);
});

test('where nothing was used it says so, and a moment that is none is a usage error', async () => {
  const nothing = await run('usage', '--from', '2h');
  assert.deepEqual([nothing.code, nothing.stdout], [0, '']);
  assert.match(nothing.stderr, /Nothing was used\./);
  assert.equal((await run('usage', '--from', 'yesterday')).code, 2);
  assert.equal((await run('usage', '--by', 'price')).code, 2);
});

test('a quota is set, shown with what is claimed, and lifted', async () => {
  const set = await run('quota', 'set', '--workloads', '3', '--memory', '8GiB');
  assert.equal(set.code, 0, set.stderr);
  await ask(rig, 'POST', '/v1/workloads', {
    body: { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' },
  });
  await run('quota', 'set', '--user', 'ada', '--cpu', '1.5');
  const shown = await run('quota', 'show');
  assert.equal(
    shown.stdout,
    [
      'WHOSE  CLASS  WORKLOADS  GPUS  CPU       MEMORY          DISK',
      'all    all    1 of 3     0     1         2 GiB of 8 GiB  0',
      'ada    all    0          0     0 of 1.5  0               0',
      '',
    ].join('\n'),
  );
  await run('quota', 'set', '--workloads', 'none');
  const json = JSON.parse((await run('quota', 'show', '--json')).stdout);
  assert.equal(json.items[0].limits.workloads, null);
  assert.equal(json.items[0].limits.memory_bytes, 8 * 2 ** 30);
});

test('a limit that is none of a number, and no limit at all, are usage errors', async () => {
  assert.equal((await run('quota', 'set')).code, 2);
  assert.equal((await run('quota', 'set', '--workloads', 'many')).code, 2);
  const unknown = await run('quota', 'set', '--tenant', 'nobody', '--gpus', '1', '--json');
  assert.equal(JSON.parse(unknown.stdout).error.code, 'not_found');
});
