import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { needs } from '../../../test/lib/parts.ts';
import { type ExecResult, exec } from '../../lib/exec.ts';
import { createMachineReader, type Exec } from '../inventory/machine-reader.ts';
import { default_policy } from '../policy.ts';
import { decideGuard, type GuardDecision } from './decide.ts';
import { parseGpuHeat, readCpuHeat, readPower } from './power.ts';
import { othersMillis, parseMemory, parseStall, parseStat } from './pressure.ts';
import { createLinuxSensors } from './sensors.ts';
import {
  judgeSessions,
  judgeTerminals,
  parseSession,
  parseSessionPaths,
  parseWho,
} from './sessions.ts';

const now = 1_700_000_000_000;

/** As systemd 252 prints them. */
const listed =
  '{"type":"a(susso)","data":[[["3",1000,"ada","seat0","/org/freedesktop/login1/session/_33"],' +
  '["c1",1000,"ada","","/org/freedesktop/login1/session/c1"]]]}\n';
const session = (type: string, kind: string, is_idle: boolean, since_ms: number) =>
  [
    `{"type":"s","data":"${type}"}`,
    `{"type":"s","data":"${kind}"}`,
    `{"type":"b","data":${is_idle}}`,
    `{"type":"t","data":${since_ms * 1000}}`,
  ].join('\n');

test("logind's sessions are read, and what it does not say is not made up", () => {
  assert.deepEqual(parseSessionPaths(listed), [
    '/org/freedesktop/login1/session/_33',
    '/org/freedesktop/login1/session/c1',
  ]);
  assert.deepEqual(parseSessionPaths('{"type":"a(susso)","data":[[]]}'), []);
  assert.equal(parseSessionPaths('Failed to connect to bus'), null);
  assert.deepEqual(parseSession(session('tty', 'user', true, now)), {
    ...{ type: 'tty', class: 'user', is_idle: true, idle_since: now },
  });
  assert.equal(parseSession(session('tty', 'user', true, 0))?.idle_since, null);
  assert.equal(parseSession('{"type":"s","data":"tty"}'), null);
});

test('of sessions the one that was used last counts; greeters are nobody', () => {
  const read = (...texts: string[]) =>
    judgeSessions(
      texts.flatMap((text) => parseSession(text) ?? []),
      now,
    );
  assert.deepEqual(read(), { idle_ms: 'nobody', has_screen: false });
  assert.deepEqual(read(session('wayland', 'greeter', false, 0)), {
    ...{ idle_ms: 'nobody', has_screen: false },
  });
  assert.deepEqual(
    read(session('x11', 'user', true, now - 900_000), session('tty', 'user', false, now - 60_000)),
    { idle_ms: 60_000, has_screen: true },
  );
  // KDE on Wayland always says that nobody is idle, and gives no time.
  assert.deepEqual(read(session('wayland', 'user', false, 0)), { idle_ms: 0, has_screen: true });
  assert.deepEqual(read(session('tty', 'user', false, 0)), { idle_ms: null, has_screen: false });
});

test('without logind terminals tell, and a screen of which nobody can tell is unknown', () => {
  const said =
    'ada      pts/0        2026-11-30 13:00 00:05        1234 (192.0.2.7)\n' +
    'ada      pts/1        2026-11-30 12:00   .          1240 (:0)\n' +
    'ben      tty1         2026-11-29 09:00  old         1001\n';
  assert.deepEqual(parseWho(said), [300_000, 0, 24 * 3600_000]);
  assert.deepEqual(parseWho(''), []);
  assert.equal(parseWho('who: cannot open'), null);
  assert.deepEqual(judgeTerminals([300_000], false), { idle_ms: 300_000, has_screen: false });
  assert.deepEqual(judgeTerminals([], false), { idle_ms: 'nobody', has_screen: false });
  assert.deepEqual(judgeTerminals([], true), { idle_ms: null, has_screen: true });
  assert.deepEqual(judgeTerminals(null, false), { idle_ms: null, has_screen: false });
});

/** A machine of files, whose tools answer by their name. */
function machine(files: Record<string, string>, tools: Record<string, string> = {}) {
  const root = mkdtempSync(join(tmpdir(), 'einsora-sensors-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const failed: ExecResult = {
    ...{ outcome: 'failed', code: null, signal: null, stdout: '', stderr: 'ENOENT' },
  };
  const exec: Exec = async (command, args) => {
    const stdout = tools[[command, ...args].find((one) => one in tools) ?? ''];
    return stdout === undefined ? failed : { ...failed, outcome: 'exited', code: 0, stdout };
  };
  return {
    ...{ root, reader: createMachineReader(exec, root) },
    [Symbol.dispose]: () => rmSync(root, { recursive: true }),
  };
}

const supply = (name: string, files: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(files).map(([file, text]) => [
      `/sys/class/power_supply/${name}/${file}`,
      `${text}\n`,
    ]),
  );
const battery = (status: string, capacity: string) => ({ type: 'Battery', status, capacity });

const power_rows: [string, Record<string, string>, ReturnType<typeof readPower>][] = [
  ['a server without any supply', {}, { source: 'mains', percent: null }],
  [
    'a laptop that is plugged in',
    {
      ...supply('AC', { type: 'Mains', online: '1' }),
      ...supply('BAT0', battery('Charging', '40')),
    },
    { source: 'mains', percent: 40 },
  ],
  [
    'a laptop on the couch',
    {
      ...supply('AC', { type: 'Mains', online: '0' }),
      ...supply('BAT0', battery('Discharging', '17')),
    },
    { source: 'battery', percent: 17 },
  ],
  [
    'two batteries',
    {
      ...supply('BAT0', battery('Full', '99')),
      ...supply('BAT1', battery('Discharging', '60')),
    },
    { source: 'battery', percent: 60 },
  ],
  [
    'the battery of a mouse',
    supply('hidpp_0', { ...battery('Discharging', '5'), scope: 'Device' }),
    { source: 'mains', percent: null },
  ],
  [
    'a slot without its battery',
    supply('BAT0', { ...battery('Unknown', '0'), present: '0' }),
    { source: 'mains', percent: null },
  ],
  ['a battery that does not say', supply('BAT0', battery('Unknown', '50')), null],
  [
    'a charge that makes no sense',
    supply('BAT0', battery('Discharging', '-1')),
    { source: 'battery', percent: null },
  ],
];

for (const [what, files, expected] of power_rows) {
  test(`power is read: ${what}`, () => {
    using here = machine(files);
    assert.deepEqual(readPower(here.reader), expected);
  });
}

test('the hottest sensor of the processor counts, and those that are none do not', () => {
  using here = machine({
    '/sys/class/thermal/thermal_zone0/type': 'acpitz\n',
    '/sys/class/thermal/thermal_zone0/temp': '27800\n',
    '/sys/class/thermal/thermal_zone1/type': 'x86_pkg_temp\n',
    '/sys/class/thermal/thermal_zone1/temp': '71000\n',
    '/sys/class/thermal/thermal_zone2/type': 'iwlwifi_1\n',
    '/sys/class/thermal/thermal_zone2/temp': '99000\n',
    '/sys/class/hwmon/hwmon3/name': 'k10temp\n',
    '/sys/class/hwmon/hwmon3/temp1_input': '82125\n',
    '/sys/class/hwmon/hwmon3/temp2_input': '255000\n',
    '/sys/class/hwmon/hwmon4/name': 'nvme\n',
    '/sys/class/hwmon/hwmon4/temp1_input': '90000\n',
  });
  assert.equal(readCpuHeat(here.reader), 82.125);
  using cold = machine({});
  assert.equal(readCpuHeat(cold.reader), null);
  assert.equal(parseGpuHeat('41\n67\n'), 67);
  assert.equal(parseGpuHeat('[N/A]\n'), null);
});

test('CPU of others is what the machine used less what is ours', () => {
  const before = parseStat('cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3 4\n');
  const after = parseStat('cpu  200 0 150 1650 0 0 0 0 0 0\n');
  assert.ok(before && after);
  assert.deepEqual(before, { busy: 200, all: 1000 });
  // 150 of 1000 ticks on four cores are 600 thousandths.
  assert.equal(othersMillis(before, after, 4000, 0), 600);
  assert.equal(othersMillis(before, after, 4000, 450), 150);
  assert.equal(othersMillis(before, after, 4000, 900), 0);
  assert.equal(othersMillis(before, before, 4000, 0), null);
  assert.equal(parseStat('intr 1 2 3'), null);
  assert.deepEqual(parseMemory('MemTotal:       100 kB\nMemAvailable:    40 kB\n'), {
    ...{ available: 40 * 1024, total: 100 * 1024 },
  });
  assert.equal(parseMemory('MemTotal: 100 kB\n'), null);
  const stall = 'some avg10=1.00 avg60=0.5 avg300=0 total=1\nfull avg10=0.73 avg60=0 total=1\n';
  assert.equal(parseStall(stall), 0.73);
  assert.equal(parseStall(null), null);
});

function sensorsOf(here: ReturnType<typeof machine>, ours: () => number | null) {
  const clock = createFakeClock();
  const sensors = createLinuxSensors({
    ...{ reader: here.reader, clock, folder: here.root, button_path: join(here.root, 'paused') },
    ...{ oursMs: async () => ours(), foreignGpus: () => null, hasGpus: () => true },
    cores_millis: 2000,
  });
  return { sensors, clock };
}

test('a machine that tells nothing gives readings that say so', async () => {
  using here = machine({});
  const { sensors } = sensorsOf(here, () => null);
  const { disk, minute, ...found } = await sensors.read();
  assert.ok(disk !== null && disk.total_bytes > 0 && minute >= 0);
  assert.deepEqual(found, {
    ...{ others_millis: null, cores_millis: 2000, foreign_gpus: null, button: null },
    ...{ memory_available_bytes: null, memory_total_bytes: 0, memory_stall_percent: null },
    owner: { idle_ms: null, has_screen: false },
    power: { source: 'mains', percent: null },
    ...{ cpu_celsius: null, gpu_celsius: null },
  });
});

test('a machine that tells all is read, and CPU from the second look on', async () => {
  using here = machine(
    {
      '/proc/stat': 'cpu  100 0 100 800 0 0 0 0 0 0\n',
      '/proc/meminfo': 'MemTotal: 100 kB\nMemAvailable: 40 kB\n',
      '/tmp/.X11-unix/X0': '',
    },
    {
      ListSessions: listed,
      'get-property': session('x11', 'user', true, createFakeClock().now() - 1000),
      'nvidia-smi': '77\n',
    },
  );
  let ours = 0;
  const { sensors, clock } = sensorsOf(here, () => ours);
  assert.equal((await sensors.read()).others_millis, null);
  await clock.advance(5000);
  ours = 1000;
  writeFileSync(join(here.root, '/proc/stat'), 'cpu  300 0 300 1400 0 0 0 0 0 0\n');
  const found = await sensors.read();
  // 400 of 1000 ticks of two cores are 800 thousandths, of which a fifth of a core is ours.
  assert.equal(found.others_millis, 600);
  assert.deepEqual(found.owner, { idle_ms: 6000, has_screen: true });
  assert.equal(found.gpu_celsius, 77);
  await clock.advance(5000);
  ours = 500;
  assert.equal((await sensors.read()).others_millis, null, 'a run of ours ended');
});

test(
  'a disk that fills up keeps guests out below its floor, all of it further down, and is let go',
  needs('tmpfs'),
  async () => {
    using here = machine({});
    const disk = join(here.root, 'disk');
    mkdirSync(disk);
    const mounted = await exec('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', disk], {
      timeout_ms: 5000,
    });
    assert.equal(mounted.code, 0, mounted.stderr);
    try {
      const clock = createFakeClock();
      const sensors = createLinuxSensors({
        ...{ reader: here.reader, clock, folder: disk, button_path: join(here.root, 'paused') },
        ...{ oursMs: async () => null, foreignGpus: () => [], hasGpus: () => false },
        cores_millis: 2000,
      });
      let before: GuardDecision | null = null;
      const decide = async (fill_mib: number, policy = default_policy) => {
        writeFileSync(join(disk, 'ballast'), Buffer.alloc(fill_mib * 2 ** 20));
        before = decideGuard(await sensors.read(), policy, before, clock.monotonic());
        return [before.level, before.own_why.length];
      };
      assert.deepEqual(await decide(1), [0, 0]);
      assert.deepEqual(await decide(50), [1, 0], 'a quarter of so small a disk is kept');
      assert.deepEqual(await decide(60), [3, 0], 'half of that: what runs stands still');
      await clock.advance(61_000);
      assert.deepEqual(await decide(1), [0, 0]);
      const disk_bytes = 32 * 2 ** 20;
      const own = { ...default_policy, reserve: { ...default_policy.reserve, disk_bytes } };
      assert.deepEqual(await decide(40, own), [1, 1], 'a floor of the owner is for all');
    } finally {
      await exec('umount', [disk], { timeout_ms: 5000 });
    }
  },
);
