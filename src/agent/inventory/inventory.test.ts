import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { inventorySchema } from '../../contract/machines.ts';
import type { DriverProbe } from '../../drivers/driver.ts';
import { systemClock } from '../../lib/clock.ts';
import { exec } from '../../lib/exec.ts';
import { installCommand, packageNames, readDistribution } from './distribution.ts';
import { createGpuWatch } from './gpu-watch.ts';
import { amountFindings, saidOnce, takeInventory } from './inventory.ts';
import { offeredAmounts } from './offer.ts';
import { virtualMachine } from './virtual-machine.ts';

const gib = 2 ** 30;
const has = {
  cpu_count: 8,
  cpu_millis: 8000,
  memory_bytes: 32 * gib,
  disk_free_bytes: 500e9,
  disk_total_bytes: 1000e9,
};
const nothing_said = { cpu_millis: null, memory_bytes: null };

test('by default the owner keeps a quarter, and a tenth of the disk', () => {
  assert.deepEqual(offeredAmounts(has, nothing_said), {
    cpu_millis: 6000,
    memory_bytes: 24 * gib,
    disk_bytes: 400e9,
  });
});

test('a small machine offers all of two cores and half of a little memory', () => {
  const small = { ...has, cpu_count: 2, cpu_millis: 2000, memory_bytes: 4 * gib };
  const offered = offeredAmounts({ ...small, disk_free_bytes: 30e9 }, nothing_said);
  assert.deepEqual(offered, { cpu_millis: 2000, memory_bytes: 2 * gib, disk_bytes: 15e9 });
});

test('8 GiB keep the 4 GiB that an owner needs at least', () => {
  const offered = offeredAmounts({ ...has, memory_bytes: 8 * gib }, nothing_said);
  assert.equal(offered.memory_bytes, 4 * gib);
});

test('what the owner says replaces the defaults, up to what is there', () => {
  const asked = offeredAmounts(has, { cpu_millis: 7500, memory_bytes: 64 * gib });
  assert.equal(asked.cpu_millis, 7500);
  assert.equal(asked.memory_bytes, 32 * gib);
});

test('an offer into which no class fits is a lack', () => {
  const capacity = { ...has, cpu_model: 'Acme', narrowed_by: ['a control group caps it'] };
  const offered = { cpu_millis: 500, memory_bytes: gib, disk_bytes: 10 };
  const findings = amountFindings(capacity, offered, 20);
  assert.deepEqual(
    findings.map((finding) => finding.status),
    ['missing', 'missing', 'missing'],
  );
  assert.match(findings[0]?.message ?? '', /\(a control group caps it\)$/);
});

test('fixes are commands of the very distribution', () => {
  const root = { is_root: true, systemd: true };
  const command = (text: string, who = root) =>
    installCommand(readDistribution(text, who), packageNames.qemu, 'QEMU');
  assert.equal(command('ID=debian\n'), 'apt-get install -y qemu-system-x86');
  assert.equal(
    command('ID=linuxmint\nID_LIKE="ubuntu debian"\n', { ...root, is_root: false }),
    'sudo apt-get install -y qemu-system-x86',
  );
  assert.equal(command("ID='fedora'\n"), 'dnf install -y qemu-kvm');
  assert.equal(command('ID=exotic\n'), 'install QEMU');
});

test('virtual machines are told by flag and named by vendor', () => {
  const flag = 'flags\t: fpu hypervisor\n';
  const read = (files: Record<string, string>) => (path: string) => files[path] ?? null;
  assert.equal(virtualMachine(read({ '/proc/cpuinfo': 'flags\t: fpu\n' })), null);
  assert.equal(virtualMachine(read({ '/proc/cpuinfo': flag })), 'a virtual machine');
  const vendor = { '/proc/cpuinfo': flag, '/sys/class/dmi/id/sys_vendor': 'QEMU\n' };
  assert.equal(virtualMachine(read(vendor)), 'a QEMU/KVM virtual machine');
});

test('this very machine: a valid inventory that explains GPU, KVM and Docker', async () => {
  const probe: DriverProbe = {
    driver: 'linux-native',
    ready: false,
    reason: 'sandbox_missing',
    findings: [{ check: 'sandbox', status: 'missing', message: 'no bwrap', fix: 'install it' }],
  };
  const inventory = await takeInventory({
    probes: [probe, { driver: 'docker', ready: false, reason: null, findings: [] }],
    exec,
    clock: systemClock,
    folder: tmpdir(),
    offer: nothing_said,
    host_name: 'here',
    gpus: createGpuWatch({ engine: null }),
  });
  assert.deepEqual(inventorySchema.parse(inventory), inventory);
  assert.ok(inventory.cpu_count >= 1 && inventory.memory_bytes > 2 ** 26);
  assert.ok(inventory.offered.memory_bytes < inventory.memory_bytes);
  for (const check of ['cpu', 'memory', 'disk', 'gpu', 'kvm', 'docker']) {
    const found = inventory.findings.filter((finding) => finding.check === check);
    assert.ok(found.length > 0, `nothing is said about ${check}`);
    assert.ok(found.every((finding) => finding.status === 'ok' || finding.fix !== null));
  }
  assert.deepEqual(
    inventory.drivers.map((driver) => driver.why),
    ['no bwrap', 'its probe failed'],
  );
});

test('that there is no container engine is said once, with what helps on this system', () => {
  const docker = {
    ...{ check: 'docker', status: 'missing' as const, message: 'no Docker' },
    fix: 'apt-get install -y docker.io',
  };
  const report = {
    ...{ driver: 'docker', ready: false, why: 'ENOENT', why_code: 'docker_missing' },
    kinds: ['instance' as const],
    findings: [{ ...docker, check: 'docker engine', message: 'ENOENT' }],
  };
  const native = { ...report, driver: 'linux-native' };
  const said = saidOnce([report, native], docker);
  assert.deepEqual(said, [{ ...report, why: 'no Docker', findings: [] }, native]);
  const answers = { ...docker, status: 'ok' as const, fix: null };
  assert.deepEqual(saidOnce([report], answers), [report], 'an engine that answers may still lack');
});
