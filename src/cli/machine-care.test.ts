/**
 * What the owner's people do about a machine, from the command line.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { now_ms } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import type { Machine } from '../contract/machines.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
  api.machines = { items: [desk] };
});
afterEach(() => api.close());

const amounts = { cpu_millis: 8000, memory_bytes: 2 ** 35, disk_bytes: 1e11 };
const desk: Machine = {
  ...{ id: 'm1', name: 'desk', region: 'local', owner: 'ada', sharing: 'private', online: true },
  ...{ invited: [], is_yours: true, drained_at: null, caps: null, reclaim: null, workloads: [] },
  ...{ last_seen_at: now_ms, offered: amounts, held: amounts, inventory: null },
};
const theirs: Machine = {
  ...{ ...desk, id: 'm2', name: 'rack', owner: 'bob', is_yours: false, invited: null },
  sharing: 'community',
};

/** The one change that was asked for. */
function asked() {
  const [change, ...others] = api.calls.filter(({ method }) => method !== 'GET');
  assert.deepEqual(others, []);
  return change === undefined ? null : [change.method, change.path, change.body, change.query];
}

const sharing_path = '/v1/machines/m1/sharing';

test('sharing says what it became, and how many that stopped', async () => {
  const machine = { ...desk, sharing: 'invite-only', invited: ['bobs', 'cyds'] };
  api.machine_changed = { machine, stopped: 2, forgotten: 0 };
  const words = ['machine', 'share', '--invite', 'bobs', '--to', 'cyds', '--uninvite', 'eves'];
  const { code, stdout, stderr } = await runCli(words, api);
  assert.equal(code, 0);
  assert.equal(stdout, 'desk is invite-only: bobs, cyds now.\n');
  assert.equal(stderr, '2 workloads are being stopped.\n');
  const body = { invite: ['bobs', 'cyds'], uninvite: ['eves'] };
  assert.deepEqual(asked(), ['PUT', sharing_path, body, {}]);
});

test('what excludes itself, or says nothing, is not asked', async () => {
  for (const words of [[], ['--private', '--community'], ['--private', '--invite', 'bobs']]) {
    const { code, stderr } = await runCli(['machine', 'share', ...words], api);
    assert.equal(code, 2, stderr);
    assert.equal(asked(), null);
  }
});

test('a machine that is not listed may still be shared less, by its id', async () => {
  const { code } = await runCli(['machine', 'share', 'm9', '--private'], api);
  assert.equal(code, 0);
  assert.deepEqual(asked(), ['PUT', '/v1/machines/m9/sharing', { sharing: 'private' }, {}]);
});

test("others' machines are named as theirs, and nothing is asked of them", async () => {
  api.machines = { items: [desk, theirs] };
  const { code, stderr } = await runCli(['machine', 'drain', 'rack'], api);
  assert.equal(code, 5);
  assert.match(stderr, /rack belongs to bob: only its own admins do that\./);
  assert.equal(asked(), null);
  await runCli(['machine', 'drain', '--stop'], api);
  assert.deepEqual(asked(), ['POST', '/v1/machines/m1/drain', { stop: true }, {}]);
});

test('limits are in cores and bytes, and none lifts one', async () => {
  api.machine_changed = {
    ...{ stopped: 0, forgotten: 0 },
    machine: { ...desk, caps: { cpu_millis: 2500, memory_bytes: null, disk_bytes: null } },
  };
  const words = ['machine', 'limits', '--cpu', '2.5', '--memory', 'none'];
  const { stdout } = await runCli(words, api);
  assert.equal(stdout, 'desk offers at most 2.5 CPU.\n');
  const body = { cpu_millis: 2500, memory_bytes: null };
  assert.deepEqual(asked(), ['PUT', '/v1/machines/m1/limits', body, {}]);
  assert.equal((await runCli(['machine', 'limits'], api)).code, 2);
});

test('that a machine is off is said twice, the second time by its name', async () => {
  const bare = await runCli(['machine', 'fence'], api);
  assert.equal(bare.code, 2);
  assert.match(bare.stderr, /say that it is powered off[\s\S]*--powered-off/);
  const silent = await runCli(['machine', 'fence', '--powered-off'], { ...api, input: '' });
  assert.match(silent.stderr, /--confirm desk/);
  assert.equal(asked(), null);
  api.machine_changed = { machine: desk, stopped: 1, forgotten: 0 };
  const typed = await runCli(['machine', 'fence', '--powered-off'], {
    ...{ ...api, tty: true },
    input: 'desk\r',
  });
  assert.equal(typed.code, 0, typed.stderr);
  assert.match(typed.stdout, /By your word desk is off/);
  assert.match(typed.stderr, /1 workload counts as over\./);
  const body = { powered_off: true, confirm: 'desk' };
  assert.deepEqual(asked(), ['POST', '/v1/machines/m1/fence', body, {}]);
});

test('removing says what stays, and asks for disks to be given up only where told', async () => {
  api.machine_changed = { machine: null, stopped: 0, forgotten: 2 };
  const { stdout } = await runCli(['machine', 'rm', 'desk', '--forget-homes'], api);
  assert.match(stdout, /what is on its disk stays there\. 2 workloads lost what it kept there/);
  assert.deepEqual(asked(), ['DELETE', '/v1/machines/m1', null, { forget_homes: 'true' }]);
});

test('whose a machine is, how it is shared, and that it drains', async () => {
  const drained = { ...desk, drained_at: 1, sharing: 'invite-only' as const, invited: ['bobs'] };
  const drivers = [
    { driver: 'docker', ready: true, why: null, kinds: ['instance'], findings: [] },
    { driver: 'libvirt', ready: true, why: null, kinds: ['vm'], findings: [] },
  ];
  const inventory = {
    ...{ name: 'desk', os: 'Debian', os_version: '13', arch: 'x64', cpu_model: 'x', cpu_count: 8 },
    ...{ memory_bytes: 1, disk_free_bytes: 1, offered: amounts, accelerators: ['cpu'], gpus: [] },
    ...{ drivers, findings: [] },
  };
  api.machines = { items: [{ ...drained, inventory }, theirs] };
  const list = await runCli(['machine', 'ls'], api);
  assert.match(list.stdout, /desk {2}online, draining {2}ada {4}invite-only/);
  assert.match(list.stdout, /rack {2}online {12}bob {4}community/);
  const shown = await runCli(['machine', 'show', 'desk'], api);
  assert.match(shown.stdout, /^shared +invite-only: bobs$/m);
  assert.match(shown.stdout, /docker \(weak\) runs what is of ada alone; this host can see: /);
  assert.match(shown.stdout, /libvirt \(strong\) runs what is of ada, bobs; this host can see: /);
  const other = await runCli(['machine', 'show', 'rack'], api);
  assert.match(other.stdout, /yours run here in virtual machines only; their host, bob, can see/);
});
