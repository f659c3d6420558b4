/**
 * The driver against a stand-in of the engine's socket: GPUs by CDI, which the machine's own engine
 * is too old for, and containers that do not end, which no test can make for real.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { newRun } from '../../../test/contracts/driver.ts';
import { type FakeEngine, fakeEngine } from '../../../test/lib/fake-engine.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { silentLog } from '../../lib/log.ts';
import { systemRandom } from '../../lib/random.ts';
import { type Driver, DriverError, type RunSpec } from '../driver.ts';
import { createDockerDriver } from './docker.ts';

const never = new AbortController().signal;

/** Its own time goes fast: what waits does not wait here. */
const hastyClock: Clock = {
  ...systemClock,
  sleep: () => systemClock.sleep(1),
  after: (ms, fn) => systemClock.after(ms / 5, fn),
  monotonic: hasty(),
};

function hasty(): () => number {
  let now = 0;
  return () => {
    now += 1000;
    return now;
  };
}

async function withDriver(
  api: { newest: string; oldest: string },
  body: (driver: Driver, fake: FakeEngine) => Promise<void>,
): Promise<void> {
  await using fake = await fakeEngine(api);
  const folder = mkdtempSync(join(tmpdir(), 'einsora-stand-in-'));
  const { socket_path } = fake;
  const parts = { clock: hastyClock, random: systemRandom, log: silentLog, fence: null };
  try {
    await body(createDockerDriver({ folder, install_id: 'mine', socket_path, ...parts }), fake);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function spec(changes: Partial<RunSpec> = {}): RunSpec {
  return {
    ...{ run: newRun(), spec_hash: 'hash', argv: ['serve'], env: { KEY: 'v' }, image: 'x:1' },
    ...{ mounts: [], network: 'none', ports: ['api'], memory_bytes: 2 ** 30, cpu_millis: 1500 },
    ...changes,
  };
}

function created({ requests }: FakeEngine) {
  const found = requests.find(({ path }) => path === '/containers/create');
  return found?.body as { Env: string[]; HostConfig: Record<string, unknown> };
}

test('GPUs are asked for by UUID through CDI, and only where they were given', () =>
  withDriver({ newest: '1.52', oldest: '1.44' }, async (driver, fake) => {
    await driver.start(spec({ gpu_uuids: ['GPU-1-a', 'GPU-2-b'] }), never);
    const { Env, HostConfig } = created(fake);
    assert.deepEqual(HostConfig.DeviceRequests, [
      { Driver: 'cdi', DeviceIDs: ['nvidia.com/gpu=GPU-1-a', 'nvidia.com/gpu=GPU-2-b'] },
    ]);
    assert.deepEqual(Env, ['KEY=v']);
    assert.ok(fake.requests.every(({ version }) => version === null || version === '1.50'));
  }));

test('a GPU that CDI does not list is refused with what renews it, before anything is made', () =>
  withDriver({ newest: '1.50', oldest: '1.44' }, async (driver, fake) => {
    fake.info.DiscoveredDevices = [{ Source: 'cdi', ID: 'nvidia.com/gpu=GPU-1' }];
    await driver.start(spec({ gpu_uuids: ['GPU-1'] }), never);
    await assert.rejects(
      driver.start(spec({ gpu_uuids: ['GPU-1', 'GPU-2'] }), never),
      (error) => error instanceof DriverError && /knows no GPU-2.*nvidia-ctk/.test(error.message),
    );
    assert.equal(fake.containers.length, 1);
  }));

test('MIG instances are asked for by their own names', () =>
  withDriver({ newest: '1.52', oldest: '1.44' }, async (driver, fake) => {
    await driver.start(spec({ gpu_uuids: ['MIG-2-b'] }), never);
    const { HostConfig } = created(fake);
    assert.deepEqual(HostConfig.DeviceRequests, [
      { Driver: 'cdi', DeviceIDs: ['nvidia.com/gpu=MIG-2-b'] },
    ]);
  }));

test('a container in which other GPUs are seen than its own does not go on', async () => {
  const cases: [string[], RegExp][] = [
    [[], /sees none in it/],
    [['GPU-2'], /GPU-1 is not in it/],
    [['GPU-1', 'GPU-2'], /GPU-2 is in it, and not its own/],
  ];
  for (const [seen, why] of cases) {
    await withDriver({ newest: '1.50', oldest: '1.44' }, async (driver, fake) => {
      fake.seen_gpus = seen;
      await assert.rejects(
        driver.start(spec({ gpu_uuids: ['GPU-1'] }), never),
        (error) =>
          error instanceof DriverError &&
          error.code === 'gpu_not_injected' &&
          why.test(error.message),
      );
      assert.deepEqual(fake.containers, []);
      assert.deepEqual(await driver.observe(), []);
    });
  }
});

test('a container in which nobody can look does not go on, one that ended tells its end', () =>
  withDriver({ newest: '1.50', oldest: '1.44' }, async (driver, fake) => {
    const refuse = (status: number, message: string) => {
      fake.fault = ({ path }) => (path.endsWith('/exec') ? { status, json: { message } } : null);
    };
    refuse(400, 'exec: "nvidia-smi": executable file not found in $PATH');
    await assert.rejects(
      driver.start(spec({ gpu_uuids: ['GPU-1'] }), never),
      (error) => error instanceof DriverError && /does not run in it/.test(error.message),
    );
    assert.deepEqual(fake.containers, []);
    refuse(409, 'container 1 is not running');
    await driver.start(spec({ gpu_uuids: ['GPU-1'] }), never);
    assert.equal(fake.containers.length, 1);
  }));

test('inside Windows there is one name for all GPUs, and what is given is looked at', () =>
  withDriver({ newest: '1.50', oldest: '1.44' }, async (driver, fake) => {
    fake.version.KernelVersion = '5.15.167.4-microsoft-standard-WSL2';
    fake.info.DiscoveredDevices = [{ Source: 'cdi', ID: 'nvidia.com/gpu=all' }];
    fake.seen_gpus = ['GPU-1'];
    await driver.start(spec({ gpu_uuids: ['GPU-1'] }), never);
    const { HostConfig } = created(fake);
    assert.deepEqual(HostConfig.DeviceRequests, [
      { Driver: 'cdi', DeviceIDs: ['nvidia.com/gpu=all'] },
    ]);
    fake.seen_gpus = ['GPU-1', 'GPU-2'];
    await assert.rejects(driver.start(spec({ gpu_uuids: ['GPU-1'] }), never), /not its own/);
  }));

test('a run without GPUs is given none, also by an engine that would give all to who asks', () =>
  withDriver({ newest: '1.41', oldest: '1.12' }, async (driver, fake) => {
    await driver.start(spec(), never);
    const { Env, HostConfig } = created(fake);
    assert.equal(HostConfig.DeviceRequests, undefined);
    assert.ok(Env.includes('NVIDIA_VISIBLE_DEVICES=void'));
  }));

test('an engine too old for CDI refuses GPUs by name, before anything is made', () =>
  withDriver({ newest: '1.43', oldest: '1.24' }, async (driver, fake) => {
    await assert.rejects(
      driver.start(spec({ gpu_uuids: ['GPU-1'] }), never),
      (error) => error instanceof DriverError && error.code === 'gpu_not_injected',
    );
    assert.deepEqual(fake.containers, []);
  }));

test('a device that the engine does not know is its refusal, and leaves nothing', () =>
  withDriver({ newest: '1.50', oldest: '1.44' }, async (driver, fake) => {
    fake.fault = ({ path }) =>
      path.endsWith('/start')
        ? {
            status: 500,
            json: { message: 'CDI device injection failed: unresolvable CDI devices' },
          }
        : null;
    await assert.rejects(
      driver.start(spec({ gpu_uuids: ['GPU-gone'] }), never),
      (error) => error instanceof DriverError && /unresolvable CDI/.test(error.message),
    );
    assert.deepEqual(fake.containers, []);
    assert.deepEqual(await driver.observe(), []);
  }));

test('a container that does not end when it is killed is told, not tried for ever', () =>
  withDriver({ newest: '1.50', oldest: '1.44' }, async (driver, fake) => {
    const one = spec();
    await driver.start(one, never);
    fake.fault = ({ path }) => (path.endsWith('/kill') ? { status: 204 } : null);
    await assert.rejects(
      driver.stop(one.run, 'park', 10),
      (error) => error instanceof DriverError && error.code === 'stop_unproven',
    );
    const kills = fake.requests.filter(({ path }) => path.endsWith('/kill'));
    assert.deepEqual(
      kills.map(({ query }) => query.signal),
      ['SIGTERM', 'SIGKILL'],
    );
    assert.equal((await driver.observe())[0]?.state, 'running');
    assert.equal(fake.containers.length, 1);
  }));

test('an engine that cannot kill says so, and the doctor hears of it', () =>
  withDriver({ newest: '1.50', oldest: '1.44' }, async (driver, fake) => {
    const one = spec();
    await driver.start(one, never);
    const message = 'tried to kill container, but did not receive an exit event';
    fake.fault = ({ path }) => (path.endsWith('/kill') ? { status: 500, json: { message } } : null);
    await assert.rejects(driver.stop(one.run, 'remove', 0), /did not receive an exit event/);
    const { findings } = await driver.probe();
    const doubt = findings.find(({ check }) => check === 'container in doubt');
    assert.match(doubt?.message ?? '', /did not receive an exit event/);
  }));

test('a container that the engine restarts, or cannot remove, is in doubt or tried again', () =>
  withDriver({ newest: '1.50', oldest: '1.44' }, async (driver, fake) => {
    const one = spec();
    await driver.start(one, never);
    const [container] = fake.containers;
    if (container !== undefined) container.state.Status = 'restarting';
    assert.equal((await driver.observe())[0]?.state, 'unknown');
    if (container !== undefined) container.state.Status = 'dead';
    let refused = 0;
    fake.fault = ({ method }) => {
      if (method !== 'DELETE' || refused > 0) return null;
      refused += 1;
      return { status: 500, json: { message: 'driver "overlay2" failed: device busy' } };
    };
    await driver.stop(one.run, 'remove', 0);
    assert.deepEqual([refused, fake.containers], [1, []]);
  }));
