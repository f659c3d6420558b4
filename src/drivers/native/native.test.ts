/**
 * The native driver for real: bubblewrap, control groups, keepers that outlive their driver.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { driverContract, newRun, until, untilEnded } from '../../../test/contracts/driver.ts';
import {
  type NativeHarness,
  nativeHarness,
  processesWith,
} from '../../../test/lib/native-harness.ts';
import { needs } from '../../../test/lib/parts.ts';
import { runName } from '../../core/run.ts';
import type { RunSpec } from '../driver.ts';
import type { Group } from './cgroup.ts';
import { foldersOf, groupPids } from './group.ts';
import { readBootId, signalProcess, startTicks } from './process.ts';

const never = new AbortController().signal;
const real = needs('bwrap', 'cgroup');
const stays = 'echo ready; while :; do sleep 0.05; done';

driverContract('linux-native', real, async () => nativeHarness());

async function started(harness: NativeHarness, spec: RunSpec): Promise<void> {
  await harness.driver.start(spec, never);
  await until(harness.clock, 'it is ready', async () => {
    const { text } = await harness.driver.logs(spec.run, 0, 1000);
    return text.includes('ready') || null;
  });
}

function groupOf(harness: NativeHarness, spec: RunSpec): Group {
  return harness.file(spec, 'run.json').group as Group;
}

function keeperPid(harness: NativeHarness, spec: RunSpec): number {
  return harness.file(spec, 'keeper.json').pid as number;
}

test('a restarted driver adopts a run: the same keeper goes on', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell(stays);
  await started(harness, spec);
  const pid = keeperPid(harness, spec);
  const next = harness.reopen();
  const [seen] = await next.observe();
  assert.deepEqual([seen?.state, seen?.spec_hash], ['running', spec.spec_hash]);
  await next.start(spec, never);
  assert.equal(keeperPid(harness, spec), pid);
  assert.equal(processesWith(spec.run.workload_id).filter((one) => one === pid).length, 1);
});

test('stop proves that nothing is left: no process, no keeper, no group', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell(`sleep 1000 & sleep 1000 & ${stays}`);
  await started(harness, spec);
  const group = groupOf(harness, spec);
  const pid = keeperPid(harness, spec);
  const pids = groupPids(group);
  assert.ok(pids.length >= 5);
  await harness.driver.stop(spec.run, 'park', 5000);
  assert.deepEqual(groupPids(group), []);
  assert.equal(startTicks(pid), null);
  assert.deepEqual(
    pids.filter((one) => startTicks(one) !== null),
    [],
  );
  assert.deepEqual(foldersOf(group).filter(existsSync), []);
});

test('a program asked to end may end in its own way', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell(`trap 'exit 5' TERM; ${stays}`);
  await started(harness, spec);
  await harness.driver.stop(spec.run, 'park', 10_000);
  const [seen] = await harness.driver.observe();
  assert.deepEqual(seen?.exit, { code: 5, signal: null, out_of_memory: false });
});

test('a program that ignores SIGTERM is killed after its grace, not before', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell(`trap '' TERM; ${stays}`);
  await started(harness, spec);
  const begun = harness.clock.monotonic();
  await harness.driver.stop(spec.run, 'park', 300);
  assert.ok(harness.clock.monotonic() - begun >= 300);
  const [seen] = await harness.driver.observe();
  assert.deepEqual(seen?.exit, { code: 137, signal: 'SIGKILL', out_of_memory: false });
});

test('over its memory cap a run dies, and its end says so', real, async () => {
  await using harness = nativeHarness();
  const spec = { ...harness.shell(''), argv: ['/usr/bin/tail', '/dev/zero'] };
  await harness.driver.start({ ...spec, memory_bytes: 64 * 2 ** 20 }, never);
  const { exit } = await untilEnded(harness, spec.run);
  assert.deepEqual(exit, { code: 137, signal: 'SIGKILL', out_of_memory: true });
});

test('the CPU and process limits of a run are set', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell(stays, { cpu_millis: 250 });
  await started(harness, spec);
  const group = groupOf(harness, spec);
  const read = (folder: string | null, file: string) =>
    readFileSync(join(folder ?? '', file), 'utf8').trim();
  const quota =
    group.version === 2
      ? read(group.cpu, 'cpu.max')
      : `${read(group.cpu, 'cpu.cfs_quota_us')} ${read(group.cpu, 'cpu.cfs_period_us')}`;
  assert.equal(quota, '25000 100000');
  assert.equal(read(group.pids, 'pids.max'), '1024');
});

test('a killed keeper leaves nothing running, and an end that nobody saw', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell(stays);
  await started(harness, spec);
  const pids = groupPids(groupOf(harness, spec));
  signalProcess(keeperPid(harness, spec), 'SIGKILL');
  const { exit } = await untilEnded(harness, spec.run);
  assert.deepEqual(exit, { code: null, signal: null, out_of_memory: false });
  assert.deepEqual(
    pids.filter((pid) => startTicks(pid) !== null),
    [],
  );
});

test('a keeper outlives hang-ups and interrupts of a terminal', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell(stays);
  await started(harness, spec);
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM', 'SIGQUIT'] as const) {
    signalProcess(keeperPid(harness, spec), signal);
  }
  await harness.driver.stop(newRun(), 'park', 0);
  assert.equal((await harness.driver.observe())[0]?.state, 'running');
});

test('a pid that now belongs to another process is not taken for the keeper', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell('exit 0');
  await harness.driver.start(spec, never);
  await untilEnded(harness, spec.run);
  const at = join(harness.folder, runName(spec.run));
  const mine = { pid: process.pid, start_ticks: (startTicks(process.pid) ?? 0) - 1 };
  const keeper = { ...harness.file(spec, 'keeper.json'), ...mine };
  writeFileSync(join(at, 'keeper.json'), JSON.stringify(keeper));
  writeFileSync(join(at, 'exit.json'), '');
  assert.equal((await harness.driver.observe())[0]?.state, 'exited');
  await harness.driver.stop(spec.run, 'park', 0);
  // Alive with the right start time, but since another boot.
  const other = { ...keeper, start_ticks: mine.start_ticks + 1, boot_id: `not-${readBootId()}` };
  writeFileSync(join(at, 'keeper.json'), JSON.stringify(other));
  const [seen] = await harness.driver.observe();
  const { code, signal } = seen?.exit ?? { code: 0, signal: '' };
  assert.deepEqual([seen?.state, code, signal], ['exited', null, null]);
});

test("another install's run is neither listed nor touched", real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell(stays);
  await started(harness, spec);
  const other = harness.openWith({ install_id: 'another' });
  assert.deepEqual(await other.observe(), []);
  await other.stop(spec.run, 'remove', 0);
  await assert.rejects(other.start(spec, never), { code: 'start_failed' });
  assert.equal((await harness.driver.observe())[0]?.state, 'running');
});

test('a run whose label cannot be read is skipped with one log line, and kept', real, async () => {
  await using harness = nativeHarness();
  const at = join(harness.folder, runName(newRun()));
  mkdirSync(at);
  writeFileSync(join(at, 'run.json'), '{"install_id":');
  const lines: string[] = [];
  const log = { ...silent(), warn: (_: object, line: string) => void lines.push(line) };
  const driver = harness.openWith({ log });
  assert.deepEqual([await driver.observe(), await driver.observe()], [[], []]);
  assert.equal(lines.length, 1);
  assert.ok(existsSync(join(at, 'run.json')));
});

test(
  'a start cut off before its keeper took over is undone, and can be done again',
  real,
  async () => {
    await using harness = nativeHarness();
    const spec = harness.shell(stays);
    await started(harness, spec);
    const label = readFileSync(join(harness.folder, runName(spec.run), 'run.json'));
    await harness.driver.stop(spec.run, 'remove', 0);
    const at = join(harness.folder, runName(spec.run));
    mkdirSync(at);
    writeFileSync(join(at, 'run.json'), label);
    assert.deepEqual(await harness.reopen().observe(), []);
    assert.deepEqual(readdirSync(harness.folder), []);
    await started(harness, spec);
  },
);

test('without a sandbox nothing starts, and the reason says what to install', real, async () => {
  await using harness = nativeHarness();
  const missing = { find: async () => ({ missing: 'bubblewrap is not installed' }) };
  const broken = { find: async () => ({ path: '/bin/false', version: '0.9.0' }) };
  const old = { find: async () => ({ path: '/bin/true', version: '0.6.1' }) };
  for (const bwrap of [missing, broken, old]) {
    const driver = harness.openWith({ bwrap });
    const spec = harness.shell(stays);
    await assert.rejects(driver.start(spec, never), { code: 'sandbox_missing' });
    assert.deepEqual(readdirSync(harness.folder), []);
    assert.deepEqual(processesWith(spec.run.workload_id), []);
    const probe = await driver.probe();
    assert.deepEqual([probe.ready, probe.reason], [false, 'sandbox_missing']);
  }
  const [finding] = (await harness.openWith({ bwrap: missing }).probe()).findings;
  assert.equal(finding?.fix, 'apt-get install bubblewrap');
});

test('a mount that is not there, or that shows the runs, refuses the start', real, async () => {
  await using harness = nativeHarness();
  for (const source of ['/nonexistent', harness.folder, join(harness.folder, '..'), '/']) {
    const mounts = [{ source, target: '/mnt/x', writable: false }];
    const refused = harness.driver.start(harness.shell(stays, { mounts }), never);
    await assert.rejects(refused, { code: 'start_failed' });
  }
  assert.deepEqual(readdirSync(harness.folder), []);
});

function silent() {
  const nothing = () => {};
  return { debug: nothing, info: nothing, warn: nothing, error: nothing, child: silent };
}
