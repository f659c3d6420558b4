/**
 * `einsora machine show`, as it is printed.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { now_ms } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import type { GpuRecord } from '../contract/gpus.ts';
import type { Machine } from '../contract/machines.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
});
afterEach(() => api.close());

const gib = 2 ** 30;
const amounts = { cpu_millis: 8000, memory_bytes: 32 * gib, disk_bytes: 1e11 };
const gpu = (more: Partial<GpuRecord> = {}): GpuRecord => ({
  ...{ uuid: 'GPU-1', pci: '0000:01:00.0', vendor: 'nvidia', model: 'NVIDIA L4' },
  ...{ memory_bytes: 22.5 * gib, unified: false, reserved_bytes: 0, state: 'ok', reasons: [] },
  ...{ usable_by: ['docker'], display_attached: false, mig_mode: null, mig_of: null },
  ...{ driver_version: '580.82.07', ...more },
});
const machine = (gpus: GpuRecord[], more: Partial<Machine> = {}): Machine => ({
  ...{ id: 'm1', name: 'desk', region: 'local', owner: 'ada', sharing: 'private', online: true },
  ...{ invited: [], is_yours: true, drained_at: null, caps: null, reclaim: null },
  ...{ last_seen_at: now_ms, offered: amounts, workloads: ['chat'] },
  held: { cpu_millis: 2000, memory_bytes: 4 * gib, disk_bytes: 0 },
  reclaim: null,
  inventory: {
    ...{ name: 'desk', os: 'Debian', os_version: '13', arch: 'x64', cpu_model: 'Acme' },
    ...{ cpu_count: 8, memory_bytes: 64 * gib, disk_free_bytes: 2e11, offered: amounts },
    ...{ accelerators: ['cpu'], gpus, findings: [] },
    drivers: [
      { driver: 'linux-native', ready: true, why: null, kinds: ['endpoint'], findings: [] },
      { driver: 'libvirt', ready: false, why: 'not built yet', kinds: ['vm'], findings: [] },
    ],
  },
  ...more,
});
const lost: GpuRecord = gpu({
  ...{ uuid: 'GPU-2', pci: '0000:02:00.0', state: 'missing', usable_by: [] },
  reasons: [
    {
      code: 'gpu_lost',
      message: 'NVIDIA L4 at 0000:02:00.0 has fallen off the bus (Xid 79).',
      fix: 'sudo reboot',
    },
  ],
});

test('each GPU with its state, its class, and what is wrong with it', async () => {
  api.machines = { items: [machine([gpu(), lost])] };
  const { code, stdout } = await runCli(['machine', 'show'], api);
  assert.equal(code, 0);
  assert.match(stdout, /^name +desk$/m);
  assert.match(stdout, /^cpu free +6 of 8$/m);
  assert.match(stdout, /^gpus +2, 1 usable$/m);
  assert.match(stdout, /^NVIDIA L4\n {2}state +ok, usable by containers$/m);
  assert.match(stdout, /^ {2}class +l4-24gb$/m);
  assert.match(
    stdout,
    /^ {2}! NVIDIA L4 at 0000:02:00\.0 has fallen off the bus \(Xid 79\)\.\n {6}sudo reboot$/m,
  );
  assert.match(stdout, /^✘ libvirt cannot run: not built yet$/m);
});

test('the table says what is not well', async () => {
  const mig = gpu({ mig_mode: 'enabled', state: 'unsupported', usable_by: [] });
  const part = gpu({ uuid: 'MIG-1', mig_of: 'GPU-1', model: 'NVIDIA L4 MIG 1g.6gb' });
  api.machines = { items: [machine([mig, part, lost])] };
  const { stdout } = await runCli(['machines'], api);
  assert.match(stdout, /NVIDIA L4 \(22\.5 GiB, MIG\), NVIDIA L4 \(22\.5 GiB, missing\)/);
});

test('where two machines are there, one has to be named; a near name is offered', async () => {
  api.machines = { items: [machine([]), machine([], { id: 'm2', name: 'rack' })] };
  const unnamed = await runCli(['machine', 'show'], api);
  assert.match(unnamed.stderr, /Which machine is meant\?/);
  assert.notEqual(unnamed.code, 0);
  const wrong = await runCli(['machine', 'show', 'dsek'], api);
  assert.match(wrong.stderr, /There is no machine dsek\.[\s\S]*did you mean desk\?/);
  const named = await runCli(['machine', 'show', 'm2', '--json'], api);
  assert.equal(JSON.parse(named.stdout).name, 'rack');
});

test('names from a machine never steer the terminal', async () => {
  api.machines = { items: [machine([gpu({ model: 'evil\u001b[2J' })])] };
  const { stdout } = await runCli(['machine', 'show'], { ...api, tty: true, columns: 200 });
  assert.equal(stdout.includes('\u001b[2J'), false);
});
