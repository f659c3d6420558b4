/**
 * `einsora usage` and `einsora quota` against a real API.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { ask, createRig, gib, inventoryOf, type Rig } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { runCli } from '../../test/lib/run-cli.ts';

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
