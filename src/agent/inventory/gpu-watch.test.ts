import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { type GpuRecord, type GpuState, gpuSchema, gpuStates } from '../../contract/gpus.ts';
import { exec } from '../../lib/exec.ts';
import { silentLog } from '../../lib/log.ts';
import {
  at,
  cells,
  engine,
  healthy,
  kernel,
  loaded,
  memory_bytes,
  merge,
  nvidia,
  smi,
  uuid,
} from './fixture-gpus.ts';
import { debian, type FixtureMachine, fixtureReader, result } from './fixture-machine.ts';
import { openGpuMemory } from './gpu-memory.ts';
import { createGpuWatch, type GpuMemory, type Settling, settle } from './gpu-watch.ts';
import { createMachineReader, type Exec } from './machine-reader.ts';

/** A watch over a machine that changes: each `look` is a minute later. */
function watched(memory?: GpuMemory) {
  const clock = createFakeClock();
  const parts = { engine: engine(), clock };
  const watch = createGpuWatch(memory === undefined ? parts : { ...parts, memory });
  return async (machine: FixtureMachine, anew = false) => {
    await clock.advance(60_000);
    const { gpus } = await watch.look(fixtureReader(machine), debian, { anew, memory_bytes });
    return gpus;
  };
}
const stateOf = async (looking: Promise<GpuRecord[]>) => (await looking).map((gpu) => gpu.state);

const hangs = merge(
  nvidia(),
  loaded,
  kernel(),
  smi({ whole: { outcome: 'timeout', code: null }, help: { outcome: 'timeout' } }),
);
const falls = merge(
  healthy({ rows: [], whole: { code: 15 }, alone: { [at]: { code: 15 } } }),
  kernel('NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.'),
);
const busy = healthy({ programs: `${uuid}, 4242, python3\n` });

test('a look that hangs leaves what was known; the second one says unknown, not absent', async () => {
  const look = watched();
  assert.deepEqual(await stateOf(look(healthy())), ['ok']);
  assert.deepEqual(await stateOf(look(hangs)), ['ok']);
  assert.deepEqual(await stateOf(look(hangs)), ['unknown']);
  const [gpu] = await look(hangs);
  assert.deepEqual([gpu?.uuid, gpu?.model], [uuid, 'NVIDIA L4']);
  assert.deepEqual(await stateOf(look(healthy())), ['unknown']);
  assert.deepEqual(await stateOf(look(healthy())), ['ok']);
});

test('a tool that hangs every other time changes nothing', async () => {
  const look = watched();
  await look(healthy());
  for (let round = 0; round < 5; round += 1) {
    assert.deepEqual(await stateOf(look(hangs)), ['ok']);
    assert.deepEqual(await stateOf(look(healthy())), ['ok']);
  }
});

test('a lost GPU counts at once, and is well again once two looks prove it', async () => {
  const look = watched();
  await look(healthy());
  assert.deepEqual(await stateOf(look(falls)), ['missing']);
  assert.deepEqual(await stateOf(look(healthy())), ['missing']);
  assert.deepEqual(await stateOf(look(healthy())), ['ok']);
});

test('an unhealthy GPU is not so for ever: it is looked at again', async () => {
  const look = watched();
  const failing = healthy({ rows: [cells({ 'memory.total': '[Unknown Error]' })] });
  assert.deepEqual(await stateOf(look(failing)), ['unhealthy']);
  assert.deepEqual(await stateOf(look(healthy())), ['unhealthy']);
  assert.deepEqual(await stateOf(look(healthy(), true)), ['ok'], 'a person asked');
});

test('programs of its owner that come and go keep the GPU for its owner', async () => {
  const look = watched();
  await look(healthy());
  for (let round = 0; round < 3; round += 1) {
    assert.deepEqual(await stateOf(look(busy)), ['busy_owner']);
    assert.deepEqual(await stateOf(look(healthy())), ['busy_owner']);
  }
  assert.deepEqual(await stateOf(look(healthy())), ['ok']);
});

test('a GPU that is not there any more is said to be gone until a person agrees', async () => {
  const look = watched();
  await look(healthy());
  const without = merge(loaded, smi({ rows: [], whole: { stdout: 'No devices were found' } }), {
    files: { '/sys/bus/pci/devices/0000:00:00.0/class': '0x060000' },
  });
  const [gone] = await look(without);
  assert.deepEqual([gone?.state, gone?.reasons[0]?.code], ['missing', 'gpu_gone']);
  assert.equal((await look(without)).length, 1);
  assert.deepEqual(await look(without, true), []);
});

test('a driver that is installed later is found, and the device gets its name', async () => {
  const look = watched();
  assert.deepEqual(await stateOf(look(nvidia({ driver: null }))), ['unsupported']);
  assert.deepEqual(await stateOf(look(healthy())), ['ok']);
});

test('a GPU that is set aside for virtual machines keeps its name, over a restart too', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-gpus-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const memory = openGpuMemory(join(folder, 'agent', 'gpus.json'), silentLog);
  await watched(memory)(healthy());
  const [gpu] = await watched(memory)(nvidia({ driver: 'vfio-pci' }));
  assert.deepEqual([gpu?.uuid, gpu?.model, gpu?.usable_by], [uuid, 'NVIDIA L4', ['libvirt']]);
  writeFileSync(join(folder, 'agent', 'gpus.json'), '[{"uuid":7}, null');
  assert.deepEqual(memory.read(), []);
});

test('a short look asks nothing that does not change from minute to minute', async () => {
  const asked: string[] = [];
  const machine = healthy();
  const { run, ...rest } = fixtureReader(machine);
  const reader = {
    ...rest,
    run: (command: string, args: string[], ms: number) => {
      asked.push(`${command} ${args[0]}`);
      return run(command, args, ms);
    },
  };
  const clock = createFakeClock();
  const watch = createGpuWatch({ engine: engine(), clock });
  const ask = { anew: false, memory_bytes };
  await watch.look(reader, debian, ask);
  assert.ok(asked.includes('nvidia-smi --help-query-gpu'));
  asked.length = 0;
  await clock.advance(60_000);
  await watch.look(reader, debian, ask);
  const names = asked.map((one) => one.replace(/=.*/, '')).sort();
  assert.deepEqual(names, [
    'journalctl -k',
    'nvidia-ctk --version',
    'nvidia-smi --query-compute-apps',
    'nvidia-smi --query-gpu',
  ]);
});

test('on a machine without such cards next to nothing is run', async () => {
  const asked: string[] = [];
  const rest = fixtureReader({});
  const reader = {
    ...rest,
    run: async (command: string) => {
      asked.push(command);
      return result({ outcome: 'failed' });
    },
  };
  const watch = createGpuWatch({ engine: engine() });
  await watch.look(reader, debian, { anew: false, memory_bytes });
  assert.deepEqual([...new Set(asked)], ['nvidia-smi']);
});

test('a real tree of files: links, folders and what may not be read', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'einsora-tree-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const { files = {}, links = {}, commands } = healthy();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(root + path), { recursive: true });
    writeFileSync(root + path, text);
  }
  for (const [path, to] of Object.entries(links)) symlinkSync(to, root + path);
  const { run } = fixtureReader({ commands: commands ?? {} });
  const reader = createMachineReader(
    (command, args, { timeout_ms }) => run(command, args, timeout_ms),
    root,
  );
  const watch = createGpuWatch({ engine: engine() });
  const { gpus } = await watch.look(reader, debian, { anew: false, memory_bytes });
  assert.deepEqual(
    gpus.map(({ uuid: one, state, usable_by }) => [one, state, usable_by]),
    [[uuid, 'ok', ['docker']]],
  );
});

test('real programs: one that crashes, one that floods, one that hangs with a child', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'einsora-tools-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const tool = join(root, 'nvidia-smi');
  const seen = async (script: string, timeout_ms: number) => {
    writeFileSync(tool, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const hasty: Exec = (command, args, options) =>
      exec(command, args, { ...options, timeout_ms, env: { PATH: `${root}:/usr/bin:/bin` } });
    const { run } = createMachineReader(hasty);
    const reader = { ...fixtureReader(merge(nvidia(), loaded)), run };
    const ask = { anew: false, memory_bytes };
    const { gpus } = await createGpuWatch({ engine: engine() }).look(reader, debian, ask);
    return gpus.map((gpu) => [gpu.state, gpu.reasons[0]?.message]);
  };
  const patient_ms = 20_000;
  const [[crashed, why] = []] = await seen('kill -FPE $$', patient_ms);
  assert.equal(crashed, 'unknown');
  assert.match(why ?? '', /nvidia-smi says: ended by SIGFPE\.$/);
  const flood = await seen('head -c 3000000 /dev/zero | tr "\\0" x', patient_ms);
  assert.deepEqual(
    flood.map(([state]) => state),
    ['unknown'],
  );
  const hung = await seen(`sleep 600 & echo $! >> ${root}/children; wait`, 300);
  assert.deepEqual(
    hung.map(([state]) => state),
    ['unknown'],
  );
  const children = readFileSync(join(root, 'children'), 'utf8').trim().split('\n').map(Number);
  assert.ok(children.length > 0);
  // Whoever waits for nobody may stay a while as an entry that runs nothing.
  const { read } = createMachineReader(exec);
  const isOver = (pid: number) => / [ZX] /.test(read(`/proc/${pid}/stat`) ?? ' X ');
  for (const pid of children) assert.ok(isOver(pid), `${pid} goes on`);
});

/** Text that looks enough like a tool's to get past the first glance. */
const pieces = [
  ...[
    uuid,
    'GPU-',
    '[N/A]',
    'ERR!',
    '[Unknown Error]',
    ',',
    '\n',
    '"uuid"',
    '0000:01:00.0',
    'MIG ',
  ],
  ...['NVRM: Xid (PCI:0000:01:00): ', '79', '999999999999', '<gpu id="', '<mig_device>', '<index>'],
  ...['fallen off the bus', '{"gpu_data":[null,{}]}', '[null]', '[{"asic":1}]', 'version mismatch'],
  ...['\u0000', '\u001b[31m', 'é', '\ud800', '23034', 'name: ', 'nvidia.com/gpu'],
];
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.array(fc.constantFrom(...pieces), { maxLength: 40 }).map((parts) => parts.join('')),
);
const said = fc.record({
  outcome: fc.constantFrom('exited' as const, 'timeout' as const, 'failed' as const),
  code: fc.constantFrom(0, 4, 8, 9, 12, 14, 15, 255, null),
  stdout: text,
  stderr: text,
});

test('whatever a tool, a file or the engine says: one valid record for the card, and no crash', async () => {
  const answers = fc.array(said, { minLength: 6, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(answers, text, fc.jsonValue(), async (tools, file, info) => {
      const names = ['nvidia-smi', 'journalctl', 'dmesg', 'nvidia-ctk', 'amd-smi', 'mokutil'];
      const commands = Object.fromEntries(names.map((name, n) => [name, tools[n] ?? {}]));
      const files = {
        '/proc/driver/nvidia/version': file,
        '/etc/cdi/nvidia.yaml': `nvidia.com/gpu ${file}`,
        [`/proc/driver/nvidia/gpus/${at}/information`]: file,
        '/proc/device-tree/model': file,
      };
      const odd = {
        version: async () => ({ api: '1.51', engine: '', product: '', os: '', kernel: '' }),
        json: async () => info,
      };
      const watch = createGpuWatch({ engine: odd });
      const reader = fixtureReader(merge(nvidia(), { files, commands }));
      for (const anew of [false, true]) {
        const { gpus } = await watch.look(reader, debian, { anew, memory_bytes });
        for (const gpu of gpus) assert.deepEqual(gpuSchema.parse(gpu), gpu);
        assert.equal(gpus.filter(({ pci }) => pci === at).length, 1);
      }
    }),
    { numRuns: 150, seed: 7 },
  );
});

const record = (state: GpuState): GpuRecord => ({
  ...{ uuid, pci: at, vendor: 'nvidia', model: 'NVIDIA L4', memory_bytes: 1, unified: false },
  ...{ reserved_bytes: 0, state, reasons: [], usable_by: state === 'ok' ? ['docker'] : [] },
  ...{ display_attached: false, mig_mode: null, mig_of: null, driver_version: null },
});

test('looks that take turns settle: after the first round nothing changes any more', () => {
  const state = fc.constantFrom(...gpuStates);
  fc.assert(
    fc.property(state, state, (one, other) => {
      let settled: Settling = new Map();
      const told: string[] = [];
      for (let round = 0; round < 20; round += 1) {
        settled = settle(settled, [record(round % 2 === 0 ? one : other)], false);
        told.push([...settled.values()].map((item) => item.record.state).join());
      }
      assert.equal(new Set(told.slice(2)).size, 1, told.join(' '));
    }),
    { numRuns: 200, seed: 7 },
  );
});
