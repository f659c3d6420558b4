import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../lib/clock.ts';
import { spawnDetached } from '../../lib/exec.ts';
import type { Group } from './cgroup.ts';
import { freeze, freezerMount, freezerOf, isFrozen, isLowered, setWeight, thaw } from './freeze.ts';
import { processState, signalProcess } from './process.ts';

/** A folder with files such as the kernel keeps for a group. */
function fakeGroup(version: 1 | 2, files: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-freeze-'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const group: Group = {
    ...{ version, memory: folder, cpu: folder, accounting: folder, pids: folder },
  };
  const read = (name: string) => readFileSync(join(folder, name), 'utf8');
  return { group, read, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

const mountinfo = [
  '33 32 0:29 / /sys/fs/cgroup/memory rw,nosuid shared:11 - cgroup cgroup rw,memory',
  '34 32 0:30 / /sys/fs/cgroup/freezer rw,nosuid shared:12 - cgroup cgroup rw,freezer',
].join('\n');

test('the way to make a run stand still is the one that the kernel has', () => {
  assert.equal(freezerMount(mountinfo), '/sys/fs/cgroup/freezer');
  assert.equal(freezerMount('35 1 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw'), null);
  using two = fakeGroup(2, { 'cgroup.freeze': '0\n' });
  assert.equal(freezerOf(two.group, '').way, 'two');
  using old_two = fakeGroup(2, {});
  assert.equal(freezerOf(old_two.group, '').way, 'signals');
  const one: Group = {
    ...{ version: 1, memory: '/sys/fs/cgroup/memory/einsora/m1/run.0.1' },
    ...{ cpu: null, accounting: null, pids: null },
  };
  assert.deepEqual(freezerOf(one, mountinfo), {
    way: 'one',
    mount: '/sys/fs/cgroup/freezer',
    folder: '/sys/fs/cgroup/freezer/einsora/m1/run.0.1',
  });
  assert.equal(freezerOf(one, '').way, 'signals');
});

test('version 2: it stands still once the kernel says so, and goes on', async () => {
  using two = fakeGroup(2, {
    'cgroup.freeze': '0\n',
    'cgroup.events': 'populated 1\nfrozen 1\n',
  });
  const freezer = freezerOf(two.group, '');
  assert.equal(isFrozen(two.group, freezer), false);
  await freeze(two.group, freezer, systemClock);
  assert.equal(isFrozen(two.group, freezer), true);
  thaw(two.group, freezer);
  assert.equal(two.read('cgroup.freeze'), '0');
});

test('what does not stand still in time is let go on, and said', async () => {
  using two = fakeGroup(2, { 'cgroup.freeze': '0', 'cgroup.events': 'populated 1\nfrozen 0\n' });
  let now = 0;
  const fast = {
    ...systemClock,
    monotonic: () => now,
    sleep: async (ms: number) => {
      now += ms;
    },
  };
  const freezer = freezerOf(two.group, '');
  await assert.rejects(freeze(two.group, freezer, fast), /does not stand still/);
  assert.equal(two.read('cgroup.freeze'), '0');
});

test('without a freezer signals stop each process, and let it go on', async () => {
  const options = { env: { PATH: '/usr/bin:/bin' }, cwd: '/' };
  const pids = [1, 2].map(() => spawnDetached('sleep', ['600'], options));
  using old = fakeGroup(1, { 'cgroup.procs': `${pids.join('\n')}\n` });
  const freezer = { way: 'signals' } as const;
  try {
    assert.equal(isFrozen(old.group, freezer), false);
    await freeze(old.group, freezer, systemClock);
    assert.deepEqual(pids.map(processState), ['T', 'T']);
    assert.equal(isFrozen(old.group, freezer), true);
    thaw(old.group, freezer);
    assert.equal(isFrozen(old.group, freezer), false);
  } finally {
    for (const pid of pids) signalProcess(pid, 'SIGKILL');
  }
});

test('little CPU is a tenth of what others have, and is taken back', () => {
  for (const [version, file] of [
    [1, 'cpu.shares'],
    [2, 'cpu.weight'],
  ] as const) {
    using here = fakeGroup(version, { [file]: version === 1 ? '1024' : '100' });
    assert.equal(isLowered(here.group), false);
    setWeight(here.group, true);
    assert.deepEqual(
      [isLowered(here.group), here.read(file)],
      [true, version === 1 ? '102' : '10'],
    );
    setWeight(here.group, false);
    assert.deepEqual(
      [isLowered(here.group), here.read(file)],
      [false, version === 1 ? '1024' : '100'],
    );
  }
  setWeight({ ...fakeless, cpu: null }, true);
  setWeight(fakeless, true);
});

const gone = '/no/such/group';
const fakeless: Group = {
  ...{ version: 1, memory: gone, cpu: gone, accounting: gone, pids: gone },
};
