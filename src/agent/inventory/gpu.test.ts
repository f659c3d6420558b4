import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  at,
  card,
  cells,
  engine,
  healthy,
  helpText,
  kernel,
  loaded,
  look,
  merge,
  nvidia,
  other_uuid,
  smi,
  toolkit,
  uuid,
} from './fixture-gpus.ts';

const xid = (number: number, text = "pid='<unknown>', name=<unknown>, an error") =>
  `NVRM: Xid (PCI:0000:01:00): ${number}, ${text}`;
const off_bus = 'Unable to determine the device handle for GPU0000:01:00.0: Unknown Error\n';

test('what keeps a GPU from virtual machines is named, with its driver', async () => {
  const members = '/sys/kernel/iommu_groups/12/devices';
  const { gpus } = await look(
    merge(nvidia({ driver: 'vfio-pci' }), {
      files: {
        '/sys/bus/pci/devices/0000:02:00.0/class': '0x010802\n',
        [`${members}/0000:02:00.0`]: '',
      },
      links: { '/sys/bus/pci/devices/0000:02:00.0/driver': '../../bus/pci/drivers/nvme' },
    }),
  );
  assert.match(
    gpus[0]?.reasons[1]?.message ?? '',
    /IOMMU group 12 also holds an NVMe disk at 0000:02:00.0 \(nvme\)\.$/,
  );
});

test('two GPUs in one group name each other', async () => {
  const second = '0000:02:00.0';
  const { gpus } = await look(
    merge(nvidia({ driver: 'vfio-pci' }), nvidia({ driver: 'vfio-pci', address: second })),
  );
  const others = gpus.map((gpu) => gpu.reasons.find(({ code }) => code === 'gpu_group_shared'));
  assert.match(others[0]?.message ?? '', /also holds a GPU at 0000:02:00.0/);
  assert.match(others[1]?.message ?? '', /also holds a GPU at 0000:01:00.0/);
});

test('one lost GPU does not hide the others, nor what it is called', async () => {
  const second = '0000:02:00.0';
  const information = `Model: \t\t NVIDIA L4\nIRQ:   \t\t 55\nGPU UUID: \t ${other_uuid}\n`;
  const { gpus } = await look(
    merge(
      healthy(),
      nvidia({ address: second, group: '13' }),
      { files: { [`/proc/driver/nvidia/gpus/${second}/information`]: information } },
      smi({
        whole: { code: 15, stdout: off_bus.replace('01:00', '02:00') },
        alone: { [second]: { code: 15, stdout: off_bus.replace('01:00', '02:00') } },
      }),
    ),
  );
  assert.deepEqual(
    gpus.map(({ uuid: one, model, state }) => [one, model, state]),
    [
      [uuid, 'NVIDIA L4', 'ok'],
      [other_uuid, 'NVIDIA L4', 'missing'],
    ],
  );
});

test('MIG instances are devices of their own, as well as their GPU', async () => {
  const instance = 'MIG-b1d1a0c4-4f5e-5a3b-9c1d-000000000001';
  const machine = merge(
    healthy({
      rows: [cells({ 'mig.mode.current': 'Enabled', name: 'NVIDIA A100-SXM4-40GB' })],
      list: `GPU 0: NVIDIA A100-SXM4-40GB (UUID: ${uuid})\n  MIG 3g.20gb     Device  0: (UUID: ${instance})\n`,
      xml: `<nvidia_smi_log><gpu id="00000000:01:00.0"><mig_devices><mig_device><index>0</index>
        <fb_memory_usage><total>20096 MiB</total></fb_memory_usage></mig_device></mig_devices>
        </gpu></nvidia_smi_log>`,
    }),
    toolkit([uuid, instance]),
  );
  const [whole, part] = (await look(machine)).gpus;
  assert.deepEqual([whole?.state, whole?.reasons[0]?.code], ['unsupported', 'gpu_mig']);
  assert.deepEqual(
    [part?.uuid, part?.mig_of, part?.model, part?.memory_bytes, part?.state, part?.usable_by],
    [instance, uuid, 'NVIDIA A100-SXM4-40GB MIG 3g.20gb', 20096 * 2 ** 20, 'ok', ['docker']],
  );
  const programs = { commands: { ...machine.commands } };
  const said = machine.commands?.['nvidia-smi'];
  programs.commands['nvidia-smi'] = (args) =>
    args[0]?.startsWith('--query-compute') || typeof said !== 'function'
      ? { stdout: `${uuid}, 4242, python3\n` }
      : said(args);
  assert.equal((await look(merge(machine, programs))).gpus[1]?.state, 'busy_owner');
  const stale = await look(merge(machine, toolkit([uuid])));
  assert.deepEqual(stale.gpus[1]?.reasons[0]?.code, 'gpu_cdi_unlisted');
  assert.match(stale.gpus[1]?.reasons[0]?.fix ?? '', /nvidia-ctk cdi generate/);
});

test('a GPU that shares the memory of its machine counts a share of it', async () => {
  const machine = healthy({ rows: [cells({ name: 'NVIDIA GB10', 'memory.total': '[N/A]' })] });
  const [gpu] = (await look(machine)).gpus;
  assert.deepEqual([gpu?.unified, gpu?.memory_bytes, gpu?.state], [true, 96 * 2 ** 30, 'ok']);
  assert.match(gpu?.reasons[0]?.message ?? '', /96 GiB of 128 GiB count as its own/);
});

test('inside Windows: containers, not virtual machines, and one name for all', async () => {
  const wsl = { files: { '/proc/version': 'Linux version 6.6 (Microsoft@Microsoft.com)' } };
  const { gpus } = await look(merge(smi(), wsl, toolkit(['all'])));
  const codes = gpus[0]?.reasons.map(({ code }) => code);
  assert.deepEqual([codes, gpus[0]?.usable_by], [['gpu_in_wsl'], ['docker']]);
  const { findings } = await look(merge(wsl, card('0x8086')));
  assert.match(findings[0]?.message ?? '', /no NVIDIA GPU reaches Linux inside Windows/);
  assert.match(findings[0]?.fix ?? '', /driver in Windows/);
});

test('a board without the tool is said to lack its system', async () => {
  const board = { files: { '/proc/device-tree/model': 'NVIDIA Jetson AGX Orin Developer Kit\0' } };
  const [gpu] = (await look(board)).gpus;
  assert.equal(gpu?.state, 'unsupported');
  assert.match(gpu?.reasons[0]?.fix ?? '', /JetPack/);
});

test('a tool that does not know a field is asked for those that each one knows', async () => {
  const machine = merge(healthy(), {
    commands: {
      'nvidia-smi': (args) => {
        const query = args.find((one) => one.startsWith('--query-gpu=')) ?? '';
        if (args[0] === '--help-query-gpu') return { stdout: helpText(Object.keys(cells())) };
        if (query.includes('display_active')) {
          return { code: 2, stdout: 'Field "display_active" is not a valid field to query.\n' };
        }
        return { stdout: `${uuid}, 00000000:01:00.0, NVIDIA L4, 580.82.07, 23034\n` };
      },
    },
  });
  const [gpu] = (await look(machine)).gpus;
  assert.deepEqual([gpu?.state, gpu?.memory_bytes], ['ok', 23034 * 2 ** 20]);
});

test('programs in our own containers are not foreign', async () => {
  const id = 'f'.repeat(64);
  const machine = merge(healthy({ programs: `${uuid}, 77, /usr/bin/llama-server\n` }), {
    files: { '/proc/77/cgroup': `0::/system.slice/docker-${id}.scope\n` },
  });
  assert.equal((await look(machine, engine({ containers: [{ Id: id }] }))).gpus[0]?.state, 'ok');
  assert.equal((await look(machine)).gpus[0]?.state, 'busy_owner');
});

test("a program's own error is told, and is no fault of the GPU", async () => {
  const { findings } = await look(merge(healthy(), kernel(xid(31), xid(13), xid(31))));
  const found = findings.find(({ message }) => message.includes('Xid 13, 31'));
  assert.match(found?.message ?? '', /3 times a program on it has failed/);
});

test('a kernel log that may not be read is said', async () => {
  const { findings } = await look(merge(nvidia(), loaded, smi()));
  assert.ok(findings.some(({ message }) => /kernel's log are not seen/.test(message)));
});

test('no NVIDIA device on the bus: says so, with the count of what is there', async () => {
  const bridge = {
    files: {
      '/sys/bus/pci/devices/0000:00:00.0/vendor': '0x8086\n',
      '/sys/bus/pci/devices/0000:00:00.0/class': '0x060000\n',
    },
  };
  const [bare] = (await look(bridge)).findings;
  assert.match(bare?.message ?? '', /none of the 1 devices on the PCI bus is an NVIDIA GPU$/);
  assert.match(bare?.fix ?? '', /add an NVIDIA GPU/);
  const guest = merge(bridge, { files: { '/proc/cpuinfo': 'flags\t\t: fpu hypervisor\n' } });
  const [inside] = (await look(guest)).findings;
  assert.match(inside?.message ?? '', /virtual machine, which sees only what its host passes/);
  const [nothing] = (await look({})).findings;
  assert.match(nothing?.message ?? '', /no PCI bus to be seen/);
});

test('graphics of a processor are no accelerator', async () => {
  const [intel] = (await look(card('0x8086', { driver: 'i915' }))).findings;
  assert.match(intel?.message ?? '', /Intel graphics cannot run models/);
  const vram = { [`/sys/bus/pci/devices/${at}/mem_info_vram_total`]: '536870912\n' };
  const amd = await look(card('0x1002', { driver: 'amdgpu', files: vram }));
  assert.equal(amd.gpus.length, 0);
  assert.match(amd.findings[0]?.message ?? '', /AMD graphics cannot run models/);
});

test('an AMD card beside a broken NVIDIA card gives both records', async () => {
  const amd = card('0x1002', { driver: 'amdgpu', address: '0000:02:00.0', group: '14' });
  const { gpus } = await look(merge(nvidia({ driver: null }), amd));
  assert.deepEqual(
    gpus.map(({ vendor }) => vendor),
    ['nvidia', 'amd'],
  );
});
