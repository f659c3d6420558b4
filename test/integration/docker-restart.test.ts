/**
 * The engine itself goes away under running containers (stopped, killed, hung), or its disk is
 * full. Each on an engine of the test's own.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { containerPids, signalPid } from '../../src/drivers/docker/processes.ts';
import {
  type Driver,
  DriverError,
  type Observation,
  type RunSpec,
} from '../../src/drivers/driver.ts';
import { until, untilEnded } from '../contracts/driver.ts';
import { type DockerHarness, dockerHarness } from '../lib/docker-harness.ts';
import { imageRegistry } from '../lib/image-registry.ts';
import { type OwnDockerd, ownDockerd } from '../lib/own-dockerd.ts';
import { needs } from '../lib/parts.ts';

const real = needs('docker');
const never = new AbortController().signal;
const stays = 'trap "exit 3" TERM; echo ready; while :; do sleep 0.1; done';

async function ready(harness: DockerHarness, spec: RunSpec): Promise<Observation> {
  await harness.driver.start(spec, never);
  await until(harness.clock, 'it is ready', async () => {
    const { text } = await harness.driver.logs(spec.run, 0, 1000);
    return text.includes('ready') || null;
  });
  const all = await harness.driver.observe();
  return all.find(({ run }) => run.workload_id === spec.run.workload_id) ?? assert.fail();
}

async function stateOf(driver: Driver): Promise<string | undefined> {
  return (await driver.observe())[0]?.state;
}

async function withEngine(
  live_restore: boolean,
  body: (harness: DockerHarness, engine: OwnDockerd) => Promise<void>,
): Promise<void> {
  await using engine = await ownDockerd({ live_restore });
  await using harness = await dockerHarness({ socket_path: engine.socket_path });
  await body(harness, engine);
}

test('an engine that is restarted ends its containers: how they ended is known', real, () =>
  withEngine(false, async (harness, engine) => {
    const spec = harness.shell(stays);
    await ready(harness, spec);
    await engine.stop();
    // While it is away nobody can tell, also who begins anew.
    assert.equal(await stateOf(harness.driver), 'unknown');
    assert.equal(await stateOf(harness.reopen()), 'unknown');
    assert.equal((await harness.driver.logs(spec.run, 0, 100)).text, 'ready\n');
    const away = (error: unknown) => error instanceof DriverError && error.code === 'stop_unproven';
    await assert.rejects(harness.driver.stop(spec.run, 'park', 0), away);
    const probe = await harness.driver.probe();
    assert.deepEqual([probe.ready, probe.reason], [false, 'docker_missing']);
    await engine.start();
    const ended = await untilEnded(harness, spec.run);
    assert.equal(ended.exit?.code, 3);
    await harness.driver.stop(spec.run, 'park', 0);
    assert.equal((await harness.reopen().observe())[0]?.exit?.code, 3);
  }),
);

test('with live-restore they go on, and are taken over as they were', real, () =>
  withEngine(true, async (harness, engine) => {
    const spec = harness.serving(harness.shell('').run);
    await harness.driver.start(spec, never);
    const quick = harness.shell('trap "exit 9" USR1; echo ready; while :; do sleep 0.1; done');
    await ready(harness, quick);
    const name = `ein-${spec.run.workload_id}.0.1`;
    const before = await harness.docker('inspect', '-f', '{{.State.Pid}}', name);
    const id = await harness.docker('inspect', '-f', '{{.Id}}', `ein-${quick.run.workload_id}.0.1`);
    await engine.stop();
    // One of them ends while nobody looks.
    for (const pid of containerPids(id)) signalPid(pid, 'SIGUSR1');
    // The engine is away, the run is not: its own socket is still served.
    await engine.start();
    const next = harness.reopen();
    await until(harness.clock, 'both are told', async () => {
      const states = (await next.observe()).map(({ state }) => state);
      return states.sort().join() === 'exited,running' || null;
    });
    assert.equal(await harness.docker('inspect', '-f', '{{.State.Pid}}', name), before);
    const ended = await untilEnded({ driver: next, clock: harness.clock }, quick.run);
    assert.notEqual(ended.exit?.code, 0);
    const socket = await next.dial(spec.run, 'http');
    socket.destroy();
    await next.stop(spec.run, 'remove', 5000);
  }),
);

test('an engine that is killed under running containers is believed when it is back', real, () =>
  withEngine(false, async (harness, engine) => {
    const spec = harness.shell(stays);
    await ready(harness, spec);
    const id = await harness.docker('inspect', '-f', '{{.Id}}', `ein-${spec.run.workload_id}.0.1`);
    await engine.kill();
    assert.ok(containerPids(id).length > 0);
    assert.equal(await stateOf(harness.driver), 'unknown');
    await engine.start();
    const ended = await until(harness.clock, 'it is ended', async () => {
      const [seen] = await harness.driver.observe();
      return seen?.state === 'exited' ? seen : null;
    });
    assert.notEqual(ended.exit?.code, 0);
    assert.deepEqual(containerPids(id), []);
  }),
);

test('an engine that hangs holds nothing up for ever, and answers again', real, () =>
  withEngine(false, async (harness, engine) => {
    const spec = harness.shell(stays);
    await ready(harness, spec);
    process.kill(engine.pid(), 'SIGSTOP');
    try {
      const begun = harness.clock.monotonic();
      assert.equal(await stateOf(harness.driver), 'unknown');
      assert.ok(harness.clock.monotonic() - begun < 40_000);
    } finally {
      process.kill(engine.pid(), 'SIGCONT');
    }
    await until(harness.clock, 'it is seen again', async () => {
      return (await stateOf(harness.driver)) === 'running' || null;
    });
  }),
);

test(
  'a disk of the engine that is full is told as such, at once, and what runs goes on',
  real,
  async () => {
    await using engine = await ownDockerd({ live_restore: false, disk_mib: 48 });
    await using harness = await dockerHarness({ socket_path: engine.socket_path });
    await using registry = await imageRegistry(64 * 2 ** 20);
    const spec = harness.shell(stays);
    await ready(harness, spec);
    const patience = { silence_ms: 20_000, waits_ms: [60_000] };
    const driver = harness.openWith({ patience });
    await assert.rejects(
      driver.start(harness.shell('true', { image: registry.reference }), never),
      (error) => error instanceof DriverError && error.code === 'container_disk_full',
    );
    assert.deepEqual(
      (await driver.observe()).map(({ state }) => state),
      ['running'],
    );
    await driver.stop(spec.run, 'park', 1000);
    assert.equal((await driver.logs(spec.run, 0, 100)).text, 'ready\n');
  },
);
