/**
 * Accounting: proofs reach the ledger while something is measured, steps of the clock are told, and
 * everybody who moves a workload says when by the clock that does not step.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginTale } from '../../test/lib/ledger-tale.ts';
import {
  ask,
  counted,
  createRig,
  gib,
  inventoryOf,
  keepingLog,
  type LogLine,
  openTestStore,
  type RigStore,
  select,
} from '../../test/lib/rig.ts';
import type { MachineProof } from '../store/proofs.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { startAccounting } from './accounting.ts';

async function begin(proofs: () => MachineProof[] = () => []) {
  const opened = await openTestStore('memory');
  const tale = await beginTale(opened.store);
  const { store, written } = counted(opened.store);
  const lines: LogLine[] = [];
  const accounting = await startAccounting({
    ...{ store: store as unknown as EinsoraStore, clock: tale.clock, proofs },
    log: keepingLog(lines),
  });
  const close = async () => {
    await accounting.stop();
    await opened.close();
  };
  return { tale, written, lines, close };
}

test('with nothing measured nothing is written', async () => {
  const { tale, written, close } = await begin();
  await tale.pass(3600_000);
  assert.deepEqual(written, ['startLedgerClock']);
  await close();
});

test('a machine that is heard of proves that its runs run, one that is not proves nothing', async () => {
  const heard: MachineProof[] = [];
  const { tale, close } = await begin(() => heard);
  const proven = async () =>
    (await select<{ proven_steady: number }>(tale.store, 'select proven_steady from runs'))[0]
      ?.proven_steady ?? 0;
  await tale.launch();
  await tale.place();
  await tale.report('ready');
  const first = await proven();
  await tale.pass(60_000);
  assert.equal(await proven(), first);
  const { machine_id } = tale.ids;
  const runs = [`${(await tale.workload()).id}.0.1`];
  heard.push({ machine_id, mono: tale.clock.monotonic(), runs });
  await tale.pass(60_000);
  assert.equal(await proven(), first + 60_000);
  await tale.pass(3600_000);
  assert.equal(await proven(), first + 60_000, 'an old word proves nothing new');
  await close();
});

test('a step of the wall clock is in the log, once', async () => {
  const { tale, lines, close } = await begin();
  await tale.launch();
  await tale.place();
  await tale.pass(60_000);
  tale.clock.stepWall(-3600_000);
  await tale.pass(120_000);
  assert.deepEqual(
    lines.map(({ level, message }) => `${level}: ${message}`),
    ['warn: the wall clock moved by -1h 0m; usage is counted without that'],
  );
  await close();
});

test('whoever moves a workload says when by the monotonic clock', async () => {
  const moving = new Set([
    ...['placeWorkload', 'queueWorkloads', 'applyReport'],
    ...['startWorkload', 'stopWorkload', 'deleteWorkload'],
  ]);
  const seen = new Map<string, unknown>();
  const wrap = (store: RigStore): RigStore => ({
    ...store,
    transact: (name, args) => {
      if (moving.has(name)) seen.set(name, (args as { mono?: unknown }).mono);
      return store.transact(name, args);
    },
  });
  const rig = await createRig({ wrap });
  const controller = rig.startController();
  const { machine_id } = rig.ids;
  const inventory = inventoryOf({ cpu_millis: 1000, memory_bytes: 2 * gib });
  const hello = { boot_id: 'b', hello_id: 'h', known: null, inventory };
  const greeted = await rig.sync.hello(machine_id, hello);
  assert.equal(greeted.outcome, 'greeted');
  const body = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
  for (const name of ['one', 'two'])
    await ask(rig, 'POST', '/v1/workloads', { body: { ...body, name } });
  await controller.pass();
  await ask(rig, 'POST', '/v1/workloads/one/stop');
  await ask(rig, 'POST', '/v1/workloads/two/stop');
  await ask(rig, 'POST', '/v1/workloads/two/start');
  const [run] = await select<{ workload_id: string }>(rig.store, 'select workload_id from runs');
  const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
  const at = { workload_id: run?.workload_id ?? '', replica: 0, run_epoch: 1 };
  const { agent_epoch, store_epoch, store_uuid } = greeted as Extract<
    typeof greeted,
    { outcome: 'greeted' }
  >;
  const stopping = new AbortController();
  stopping.abort();
  const report = {
    ...{ boot_id: 'b', agent_epoch, seq: 1, store_uuid, store_epoch, have_generation: 0 },
    ...{ observed: [{ ...at, state: 'parked' as const, ...facts }], inventory: null },
  };
  await rig.sync.sync(machine_id, report, stopping.signal);
  await ask(rig, 'DELETE', '/v1/workloads/one');
  assert.deepEqual([...seen.keys()].sort(), [...moving].sort());
  for (const [name, mono] of seen) assert.equal(typeof mono, 'number', name);
  await rig.close();
});
