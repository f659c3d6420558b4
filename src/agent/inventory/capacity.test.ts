import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countList, readCapacity } from './capacity.ts';
import { readMacCapacity } from './mac-capacity.ts';

const gib = 2 ** 30;
const machine: Record<string, string> = {
  '/proc/cpuinfo': [0, 1, 2, 3].map((n) => `processor\t: ${n}\nmodel name\t: Acme 9\n`).join('\n'),
  '/proc/meminfo': 'MemTotal:       16777216 kB\nMemFree: 1 kB\n',
  '/proc/self/status': 'Name:\tnode\nCpus_allowed_list:\t0-3\n',
};
const v2 = {
  '/proc/self/cgroup': '0::/user.slice/app\n',
  '/proc/self/mountinfo': '31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n',
};
const v1 = {
  '/proc/self/cgroup': '4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n',
  '/proc/self/mountinfo':
    '35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n' +
    '32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n',
};
const capacity = (files: Record<string, string>) => {
  const all: Record<string, string> = { ...machine, ...files };
  return readCapacity((path) => all[path] ?? null);
};

test('a bare machine has what its hardware has', () => {
  const { narrowed_by, ...has } = capacity({});
  assert.deepEqual(has, {
    cpu_model: 'Acme 9',
    cpu_count: 4,
    cpu_millis: 4000,
    memory_bytes: 16 * gib,
  });
  assert.deepEqual(narrowed_by, []);
});

test('version 2: own quota, and a memory limit of the group above', () => {
  const has = capacity({
    ...v2,
    '/sys/fs/cgroup/user.slice/app/cpu.max': '150000 100000\n',
    '/sys/fs/cgroup/user.slice/app/memory.max': 'max\n',
    '/sys/fs/cgroup/user.slice/memory.max': `${3 * gib}\n`,
  });
  assert.equal(has.cpu_millis, 1500);
  assert.equal(has.cpu_count, 1);
  assert.equal(has.memory_bytes, 3 * gib);
  assert.deepEqual(has.narrowed_by, [
    'a control group caps CPU at 1.5 cores',
    'a control group caps memory at 3072 MiB',
  ]);
});

test('version 1: limits inside a container, whose mount starts at its own group', () => {
  const has = capacity({
    ...v1,
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': `${2 * gib}\n`,
    '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us': '200000\n',
    '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us': '100000\n',
  });
  assert.equal(has.memory_bytes, 2 * gib);
  assert.equal(has.cpu_millis, 2000);
});

test('version 1: no quota (-1) and the huge number that means no limit narrow nothing', () => {
  const has = capacity({
    ...v1,
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
    '/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us': '-1\n',
    '/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us': '100000\n',
  });
  assert.deepEqual([has.cpu_millis, has.memory_bytes], [4000, 16 * gib]);
});

test('a CPU mask narrows the count', () => {
  const has = capacity({ '/proc/self/status': 'Cpus_allowed_list:\t1,3\n' });
  assert.equal(has.cpu_count, 2);
  assert.deepEqual(has.narrowed_by, ['this process may use 2 of 4 cores']);
});

test('lists of CPUs are counted', () => {
  assert.equal(countList('0-3,8'), 5);
  assert.equal(countList('2'), 1);
});

test('a Mac says it through sysctl', () => {
  const text =
    'hw.memsize: 34359738368\nhw.ncpu: 10\nmachdep.cpu.brand_string: Apple M2 Pro\n' +
    'kern.hv_vmm_present: 0\n';
  assert.deepEqual(readMacCapacity(text), {
    cpu_model: 'Apple M2 Pro',
    cpu_count: 10,
    cpu_millis: 10_000,
    memory_bytes: 32 * gib,
    narrowed_by: [],
    in_vm: false,
  });
  assert.equal(readMacCapacity('hw.ncpu: 10\n'), null);
});
