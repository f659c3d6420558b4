import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../lib/clock.ts';
import { seededRandom } from '../lib/random.ts';
import { loadConfig } from './config.ts';
import { doctor, isFree, lookAtFolder, printDiagnosis } from './doctor.ts';
import { collectFindings, type DoctorFacts, type Finding } from './doctor-findings.ts';
import type { Io } from './io.ts';

const fine = (check: string): Finding => ({ check, status: 'ok', message: check, fix: null });
const lack = (check: string): Finding => ({
  check,
  status: 'missing',
  message: 'no',
  fix: 'do it',
});

const facts: DoctorFacts = {
  inventory: {
    ...{ name: 'here', os: 'Debian', os_version: '12', arch: 'x64', cpu_model: 'Acme' },
    ...{ cpu_count: 2, memory_bytes: 2 ** 34, disk_free_bytes: 1e12, gpus: [] },
    offered: { cpu_millis: 2000, memory_bytes: 2 ** 33, disk_bytes: 1e11 },
    accelerators: ['cpu'],
    findings: [fine('cpu'), fine('memory'), fine('disk'), lack('gpu'), lack('kvm'), lack('docker')],
    drivers: [
      {
        ...{ driver: 'linux-native', ready: true, why: null, kinds: ['endpoint'] },
        findings: [fine('sandbox'), fine('caps')],
      },
      { driver: 'docker', ready: false, why: 'not part of this version', kinds: [], findings: [] },
    ],
  },
  main_driver: 'linux-native',
  sandbox_download_bytes: null,
  engine: { kind: 'found', label: 'llama.cpp b1' },
  folder: { path: '/d', exists: true, unwritable: null, open_to_others: false, free_bytes: 1e12 },
  store: { kind: 'file', path: '/d/einsora.db', exists: true, version: '3.53.0', network: null },
  control_plane: null,
  port: { number: 4600, free: true },
  up_command: 'bin/einsora up',
};

test('the store is said by its kind and place, and what is wrong with it by its code', () => {
  const of = (store: DoctorFacts['store']) => group({ ...facts, store }, 'store')[0];
  assert.equal(of(facts.store)?.message, 'SQLite 3.53.0 in /d/einsora.db');
  const file = { kind: 'file', path: '/d/einsora.db', version: '3.53.0' } as const;
  const first = of({ ...file, exists: false, network: null });
  assert.equal(first?.message, 'SQLite 3.53.0 in /d/einsora.db, which the first up makes');
  const far = of({ ...file, exists: true, network: 'nfs4' });
  assert.equal(far?.status, 'missing');
  assert.match(far?.message ?? '', /^\/d is on a network filesystem \(nfs4\)/);
  const address = 'postgres://ada@db/einsora';
  const there = of({ kind: 'postgres', address, version: '15.18', why: null });
  assert.equal(there?.message, 'Postgres 15.18 at postgres://ada@db/einsora');
  const code = 'database_unreachable';
  const gone = of({ kind: 'postgres', address, code, why: 'ECONNREFUSED' });
  assert.deepEqual(
    [gone?.status, gone?.message],
    ['missing', `${address} does not answer: ECONNREFUSED.`],
  );
});

const native = (...findings: Finding[]): DoctorFacts => {
  const [driver, ...others] = facts.inventory.drivers;
  assert.ok(driver);
  const drivers = [{ ...driver, findings }, ...others];
  return { ...facts, inventory: { ...facts.inventory, drivers } };
};
const group = (given: DoctorFacts, name: string) =>
  collectFindings(given).groups.find((one) => one.name === name)?.findings ?? [];

test('no GPU, no KVM and no Docker leave the main job possible', () => {
  const { ready, groups } = collectFindings(facts);
  assert.equal(ready, true);
  assert.deepEqual(
    groups.map(({ name }) => name),
    [
      ...['machine', 'sandbox', 'memory caps', 'engine', 'data folder', 'store'],
      ...['gpu', 'virtualization', 'docker', 'port', 'control plane'],
    ],
  );
});

test('no sandbox, no cap, no engine or no folder make it impossible', () => {
  const ready = (given: DoctorFacts) => collectFindings(given).ready;
  assert.equal(ready(native(lack('sandbox'), fine('caps'))), false);
  assert.equal(ready(native(fine('sandbox'), lack('caps'))), false);
  assert.equal(ready({ ...facts, folder: { ...facts.folder, unwritable: 'read-only' } }), false);
  assert.equal(ready({ ...facts, folder: { ...facts.folder, free_bytes: 1e6 } }), false);
  const engine = { kind: 'missing', code: 'python_missing', details: {} } as const;
  assert.equal(ready({ ...facts, engine }), false);
  assert.match(group({ ...facts, engine }, 'engine')[0]?.fix ?? '', /python3-venv/);
});

test('a system without the driver that it would need is not ready', () => {
  assert.equal(collectFindings({ ...facts, main_driver: 'macos-native' }).ready, false);
});

test('what the first launch brings is a warning', () => {
  const given = { ...native(lack('bubblewrap'), fine('caps')), sandbox_download_bytes: 57_346 };
  const engine = { kind: 'fetchable', download_bytes: 34e6 } as const;
  const { ready } = collectFindings({ ...given, engine });
  assert.equal(ready, true);
  assert.match(group(given, 'sandbox')[0]?.message ?? '', /first launch fetches it \(57.3 kB\)/);
  assert.match(group({ ...given, engine }, 'engine')[0]?.message ?? '', /34.0 MB/);
});

test('a bubblewrap that does not work is not mended by fetching another', () => {
  const given = { ...native(lack('sandbox'), fine('caps')), sandbox_download_bytes: 57_346 };
  assert.equal(collectFindings(given).ready, false);
});

test('a folder that others can read, a taken port and a silent control plane are warned of', () => {
  const folder = { ...facts.folder, open_to_others: true };
  assert.equal(group({ ...facts, folder }, 'data folder')[1]?.fix, 'chmod 700 /d');
  const port = { number: 4600, free: false };
  assert.equal(group({ ...facts, port }, 'port')[0]?.fix, 'bin/einsora up --port 4601');
  const control_plane = { url: 'http://127.0.0.1:1', pid: 7, version: '1', healthy: false };
  assert.match(group({ ...facts, port, control_plane }, 'control plane')[0]?.fix ?? '', /^kill 7/);
  assert.equal(group({ ...facts, port, control_plane }, 'port')[0]?.status, 'ok');
});

test('it prints marks, messages without escapes, and the fix below', (t) => {
  const { context, printed } = terminal(t);
  const message = 'no \u001b[31mGPU';
  const findings = [{ check: 'gpu', status: 'missing', message, fix: 'add one' } as const];
  printDiagnosis(context, { ready: false, groups: [{ name: 'gpu', findings }] });
  assert.match(printed(), /^gpu\n {2}✘ no GPU\n {6}add one\n\nAn endpoint cannot run/);
});

test('on this very machine it prints one document and makes nothing', async (t) => {
  const { context, printed, folder } = terminal(t);
  const code = await doctor({ json: true }, context.config, context.io);
  const { ready, groups } = JSON.parse(printed());
  assert.equal(code, ready ? 0 : 1);
  const names = groups.map(({ name }: { name: string }) => name);
  for (const name of ['machine', 'gpu', 'virtualization', 'docker', 'engine', 'data folder']) {
    assert.ok(names.includes(name), `nothing is said about ${name}`);
  }
  assert.deepEqual(readdirSync(folder), []);
});

test('a folder is judged by where it is or would be', (t) => {
  const folder = temporaryFolder(t);
  const absent = lookAtFolder(join(folder, 'a', 'b'));
  assert.deepEqual([absent.exists, absent.unwritable], [false, null]);
  mkdirSync(join(folder, 'open'), { mode: 0o755 });
  assert.equal(lookAtFolder(join(folder, 'open')).open_to_others, true);
  writeFileSync(join(folder, 'file'), '');
  assert.match(lookAtFolder(join(folder, 'file', 'x')).unwritable ?? '', /is no folder/);
});

test('a port is free or taken', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  assert.equal(await isFree(port), false);
  await new Promise((resolve) => server.close(resolve));
  assert.equal(await isFree(port), true);
});

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-doctor-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function terminal(t: TestContext) {
  const folder = temporaryFolder(t);
  const config = loadConfig({ data_dir: join(folder, 'data') }, {});
  const stdout = new PassThrough();
  const io: Io = {
    ...{ stdin: new PassThrough(), stdout, stderr: new PassThrough(), cwd: folder },
    clock: systemClock,
    random: seededRandom(1),
    onInterrupt: () => () => {},
    openPage: async () => false,
  };
  const printed = () => String(stdout.read() ?? '');
  return { context: { config, io }, printed, folder };
}
