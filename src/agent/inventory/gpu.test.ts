import assert from 'node:assert/strict';
import { test } from 'node:test';
import { debian, type FixtureMachine, fixtureReader } from './fixture-machine.ts';
import { lookForGpus } from './gpu.ts';

const card = (vendor: string, driver: string | null, address = '0000:01:00.0'): FixtureMachine => ({
  files: {
    [`/sys/bus/pci/devices/${address}/vendor`]: `${vendor}\n`,
    [`/sys/bus/pci/devices/${address}/class`]: '0x030200\n',
  },
  links:
    driver === null
      ? {}
      : { [`/sys/bus/pci/devices/${address}/driver`]: `../../../bus/pci/drivers/${driver}` },
});
const bridge = {
  '/sys/bus/pci/devices/0000:00:00.0/vendor': '0x8086\n',
  '/sys/bus/pci/devices/0000:00:00.0/class': '0x060000\n',
};
const loaded = { '/proc/driver/nvidia/version': 'NVRM version: 580.82' };

async function only(machine: FixtureMachine) {
  const { gpus, findings } = await lookForGpus(fixtureReader(machine), debian);
  assert.equal(findings.length, 1);
  const [finding] = findings;
  assert.ok(finding);
  return { gpus, finding };
}

async function broken(stderr: string, code: number, more: FixtureMachine = {}) {
  const nvidia = card('0x10de', 'nvidia');
  return only({
    ...nvidia,
    files: { ...nvidia.files, ...loaded },
    commands: { 'nvidia-smi': { stderr, code } },
    ...more,
  });
}

test('no NVIDIA device on the bus: says so, with the count of what is there', async () => {
  const { finding } = await only({ files: bridge });
  assert.equal(finding.status, 'missing');
  assert.match(finding.message, /none of the 1 devices on the PCI bus is an NVIDIA GPU$/);
  assert.match(finding.fix ?? '', /add an NVIDIA GPU/);
});

test('no device inside a virtual machine: the fix is on its host', async () => {
  const { finding } = await only({
    files: { ...bridge, '/proc/cpuinfo': 'flags\t\t: fpu hypervisor\n' },
  });
  assert.match(finding.message, /virtual machine, which sees only what its host passes through/);
  assert.match(finding.fix ?? '', /pass a GPU through/);
});

test('no bus at all is not "no GPU on the bus"', async () => {
  const { finding } = await only({});
  assert.match(finding.message, /no PCI bus to be seen/);
});

test('Intel graphics are named as no help', async () => {
  const { finding } = await only(card('0x8086', 'i915'));
  assert.match(finding.message, /Intel graphics cannot run models/);
});

test("a card's sound function is no GPU", async () => {
  const { finding } = await only({
    files: {
      '/sys/bus/pci/devices/0000:01:00.1/vendor': '0x10de',
      '/sys/bus/pci/devices/0000:01:00.1/class': '0x040300',
    },
  });
  assert.match(finding.message, /none of the 1 devices/);
});

test('inside Windows without a GPU: the driver is wanted in Windows', async () => {
  const version = 'Linux version 6.6 (Microsoft@Microsoft.com)';
  const { finding } = await only({ files: { ...bridge, '/proc/version': version } });
  assert.match(finding.message, /WSL/);
  assert.match(finding.fix ?? '', /driver in Windows/);
});

test('a card without a driver: the package for this distribution', async () => {
  const { finding } = await only(card('0x10de', null));
  assert.match(finding.message, /at 0000:01:00.0, but no NVIDIA driver is installed/);
  assert.match(finding.fix ?? '', /^sudo apt-get install -y nvidia-driver/);
});

test('a card run by nouveau: install and reboot', async () => {
  const { finding } = await only(card('0x10de', 'nouveau'));
  assert.match(finding.message, /nouveau/);
  assert.match(finding.fix ?? '', /then reboot$/);
});

test('a card set aside for virtual machines', async () => {
  const { finding } = await only(card('0x10de', 'vfio-pci'));
  assert.match(finding.message, /vfio-pci/);
});

test('driver installed and not loaded, with Secure Boot in its way', async () => {
  const machine = card('0x10de', null);
  const { finding } = await only({
    ...machine,
    commands: {
      'nvidia-smi': {
        code: 9,
        stdout: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
      },
      mokutil: { stdout: 'SecureBoot enabled\n' },
    },
  });
  assert.match(finding.message, /installed and not loaded \(Secure Boot is on/);
  assert.match(finding.fix ?? '', /modprobe nvidia/);
});

test('driver and library of different versions: reboot', async () => {
  const { finding } = await broken(
    'Failed to initialize NVML: Driver/library version mismatch',
    18,
  );
  assert.match(finding.message, /updated while the old one runs/);
  assert.equal(finding.fix, 'sudo reboot');
});

test('a tool that hangs is said to hang', async () => {
  const { finding } = await broken('', 0, { commands: { 'nvidia-smi': { outcome: 'timeout' } } });
  assert.match(finding.message, /did not answer within 10 s/);
});

test('a GPU that fell off the bus', async () => {
  const { finding } = await broken('Unable to determine the device handle for GPU0', 255);
  assert.match(finding.message, /fallen off the bus/);
});

test('a device file that this user may not open', async () => {
  const { finding } = await broken('Insufficient Permissions', 4);
  assert.match(finding.message, /may not open/);
});

test('a loaded driver without its tool', async () => {
  const { finding } = await broken('', 0, { commands: {} });
  assert.match(
    finding.message,
    /its driver loaded, but nvidia-smi or its library is not installed/,
  );
});

test('an unknown failure keeps its words, without terminal escapes', async () => {
  const { finding } = await broken('\u001b[31msome new trouble\u001b[0m\nmore', 77);
  assert.match(finding.message, /nvidia-smi failed: some new trouble$/);
});

test('a working GPU is listed, and said not to be used yet', async () => {
  const { gpus, finding } = await broken('', 0, {
    commands: { 'nvidia-smi': { stdout: 'NVIDIA L4, GPU-1f2e, 23034\n' } },
  });
  assert.deepEqual(gpus, [{ name: 'NVIDIA L4', uuid: 'GPU-1f2e', memory_bytes: 23034 * 2 ** 20 }]);
  assert.equal(finding.status, 'warning');
});

test('an AMD card is named as not supported yet', async () => {
  const { finding } = await only(card('0x1002', 'amdgpu'));
  assert.match(finding.message, /AMD GPU, which is not supported yet/);
});

test('an AMD card beside a broken NVIDIA card gives both findings', async () => {
  const nvidia = card('0x10de', null);
  const amd = card('0x1002', 'amdgpu', '0000:02:00.0');
  const machine = { files: { ...nvidia.files, ...amd.files } };
  const { findings } = await lookForGpus(fixtureReader(machine), debian);
  assert.equal(findings.length, 2);
});
