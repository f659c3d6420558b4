import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { debian, type FixtureMachine, fixtureReader } from './fixture-machine.ts';
import { judgeKvm, lookForKvm, trialSector } from './kvm.ts';

const folder = mkdtempSync(join(tmpdir(), 'einsora-kvm-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const intel = { '/proc/cpuinfo': 'flags\t\t: fpu vmx sse\n' };
const look = (machine: FixtureMachine, arch = 'x64') =>
  lookForKvm(fixtureReader(machine), debian, { arch, folder });
const opens = { '/dev/kvm': 'opens' } as const;

test('a device file without vmx or svm in the flags lies', async () => {
  const finding = await look({
    devices: opens,
    files: { '/proc/cpuinfo': 'flags\t\t: fpu sse svmlike hypervisor\n' },
  });
  assert.equal(finding.status, 'missing');
  assert.match(finding.message, /the device file lies: no hardware virtualization reaches this/);
  assert.match(finding.fix ?? '', /nested virtualization on the host/);
});

test('no flags on bare metal: the firmware setup', async () => {
  const finding = await look({ files: { '/proc/cpuinfo': 'flags\t\t: fpu sse\n' } });
  assert.doesNotMatch(finding.message, /lies/);
  assert.match(finding.fix ?? '', /firmware setup/);
});

test('a missing device file on a processor that could: its module', async () => {
  const finding = await look({ files: intel });
  assert.match(finding.fix ?? '', /^sudo modprobe kvm_intel/);
  const amd = await look({ files: { '/proc/cpuinfo': 'flags\t\t: svm\n' } });
  assert.match(amd.fix ?? '', /^sudo modprobe kvm_amd/);
});

test('a file that this user may not open: the group', async () => {
  const finding = await look({ files: intel, devices: { '/dev/kvm': 'denied' } });
  assert.match(finding.fix ?? '', /^sudo usermod -aG kvm/);
});

test('a file with nothing behind it', async () => {
  const finding = await look({ files: intel, devices: { '/dev/kvm': 'dead' } });
  assert.match(finding.message, /nothing answers behind it/);
});

test('without QEMU it is unproven, not fine', async () => {
  const finding = await look({ files: intel, devices: opens });
  assert.equal(finding.status, 'warning');
  assert.match(finding.message, /unproven/);
  assert.equal(finding.fix, 'sudo apt-get install -y qemu-system-x86');
});

test('on Arm, where no flag can be read, a file that opens stays unproven', async () => {
  const finding = await look({ devices: opens }, 'arm64');
  assert.equal(finding.status, 'warning');
});

test('a guest that runs to its end proves KVM, and leaves no file', async () => {
  const commands = { 'qemu-system-x86_64': { code: 33 } };
  const finding = await look({ files: intel, devices: opens, commands });
  assert.deepEqual([finding.status, finding.fix], ['ok', null]);
  assert.deepEqual(readdirSync(folder), []);
});

test('a guest that hangs, or a QEMU that fails, is no KVM', async () => {
  const hung = { 'qemu-system-x86_64': { outcome: 'timeout' } } as const;
  const first = await look({ files: intel, devices: opens, commands: hung });
  assert.match(first.message, /tiny guest did not end within 10 s/);
  const failed = { 'qemu-system-x86_64': { code: 1, stderr: 'x\nfailed to set MSR 0x48d' } };
  const second = await look({ files: intel, devices: opens, commands: failed });
  assert.match(second.message, /a tiny guest failed: failed to set MSR 0x48d/);
  assert.equal(second.status, 'missing');
});

test('a clean end of QEMU is not taken for a guest that ran', async () => {
  const commands = { 'qemu-system-x86_64': { code: 0 } };
  const finding = await look({ files: intel, devices: opens, commands });
  assert.equal(finding.status, 'missing');
});

test('a Mac has no KVM to look for', () => {
  const here = { ...debian, os: 'macOS' };
  const finding = judgeKvm({
    here,
    inside: null,
    arch: 'arm64',
    device: 'missing',
    flag: null,
    trial: null,
  });
  assert.match(finding.message, /belongs to Linux/);
});

test('the trial guest is one boot sector', () => {
  const sector = trialSector();
  assert.equal(sector.length, 512);
  assert.equal(sector.readUInt16BE(510), 0x55aa);
});
