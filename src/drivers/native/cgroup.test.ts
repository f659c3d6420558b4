/**
 * Which way of capping is found on which machine.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CapsSnapshot, describeCaps, detectCaps } from './cgroup.ts';

const tree = '/sys/fs/cgroup';
const line = (folder: string, type: string, options: string) =>
  `32 31 0:29 / ${folder} rw,relatime shared:9 - ${type} ${type} ${options}`;
const version_1 = ['memory', 'cpu,cpuacct', 'pids']
  .map((names) => line(`${tree}/${names}`, 'cgroup', `rw,${names}`))
  .join('\n');
const named = line(`${tree}/systemd`, 'cgroup', 'rw,name=systemd');

function snapshot(changes: Partial<CapsSnapshot>): CapsSnapshot {
  return {
    mountinfo: '',
    isWritable: () => true,
    controllersOf: () => [],
    uid: 0,
    has_user_systemd: false,
    ...changes,
  };
}

test('version 1: each controller in its own hierarchy, shared ones too', () => {
  const way = detectCaps(snapshot({ mountinfo: `${named}\n${version_1}` }));
  const both = `${tree}/cpu,cpuacct`;
  assert.deepEqual(way, {
    way: 'folders',
    base: {
      version: 1,
      memory: `${tree}/memory`,
      cpu: both,
      accounting: both,
      pids: `${tree}/pids`,
    },
  });
});

test('hybrid: controllers of version 1 beside an empty version 2 tree mean version 1', () => {
  const mountinfo = [line(`${tree}/unified`, 'cgroup2', 'rw'), version_1].join('\n');
  const way = detectCaps(snapshot({ mountinfo, controllersOf: () => ['hugetlb'] }));
  assert.ok(way.way === 'folders' && way.base.version === 1);
});

test('version 2: one tree, and only the controllers it has', () => {
  const mountinfo = line(tree, 'cgroup2', 'rw,nsdelegate');
  const controllersOf = () => ['cpuset', 'memory', 'pids'];
  assert.deepEqual(detectCaps(snapshot({ mountinfo, controllersOf })), {
    way: 'folders',
    base: { version: 2, memory: tree, cpu: null, accounting: tree, pids: tree },
  });
});

test("version 2 for a plain user: a scope of the user's systemd, else nothing", () => {
  const user = {
    mountinfo: line(tree, 'cgroup2', 'rw'),
    controllersOf: () => ['cpu', 'memory', 'pids'],
    isWritable: () => false,
    uid: 1000,
  };
  const with_systemd = detectCaps(snapshot({ ...user, has_user_systemd: true }));
  assert.deepEqual(with_systemd, { way: 'systemd', mount: tree, uid: 1000 });
  const without = detectCaps(snapshot(user));
  assert.equal(without.way, 'none');
  assert.match(describeCaps(without), /cannot be capped: .* no systemd user session/);
});

test('without a memory controller there is no cap, and the reason is told', () => {
  const none = (changes: Partial<CapsSnapshot>) => {
    const way = detectCaps(snapshot(changes));
    return way.way === 'none' ? way.why : way.way;
  };
  assert.equal(none({}), 'no control groups are mounted');
  assert.equal(none({ mountinfo: named }), 'no control groups are mounted');
  const mountinfo = line(tree, 'cgroup2', 'rw');
  assert.equal(
    none({ mountinfo, controllersOf: () => ['cpu'] }),
    `${tree} has no memory controller`,
  );
  const read_only = { mountinfo: version_1, isWritable: () => false };
  assert.equal(none(read_only), `${tree}/memory cannot be written`);
});

test('a missing CPU controller is said', () => {
  const mountinfo = line(`${tree}/memory`, 'cgroup', 'rw,memory');
  assert.match(describeCaps(detectCaps(snapshot({ mountinfo }))), /CPU not capped/);
});
