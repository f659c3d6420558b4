/**
 * The sim driver: the contract of all drivers, and its scripts.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type DriverHarness, driverContract, newRun } from '../../test/contracts/driver.ts';
import type { RunKey } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { seededRandom } from '../lib/random.ts';
import { type Driver, DriverError, type RunSpec } from './driver.ts';
import { createSimDriver, type SimPlan } from './sim.ts';
import { sim_answer } from './sim-server.ts';

const never = new AbortController().signal;

/** A clock on which sleeping is what makes time pass. */
function steppingClock(): Clock & { advance(ms: number): void } {
  let now_ms = 1_700_000_000_000;
  return {
    now: () => now_ms,
    monotonic: () => now_ms,
    async sleep(ms) {
      now_ms += ms;
    },
    after: () => () => {},
    advance(ms) {
      now_ms += ms;
    },
  };
}

function specOf(run: RunKey): RunSpec {
  return {
    run,
    spec_hash: `hash-${run.workload_id}`,
    argv: ['/bin/true'],
    env: {},
    mounts: [],
    network: 'none',
    ports: ['http'],
    memory_bytes: 2 ** 28,
    cpu_millis: 1000,
  };
}

driverContract('sim', { skip: false }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-sim-'));
  const clock = steppingClock();
  const plans = new Map<string, SimPlan>();
  const options = {
    folder,
    clock,
    random: seededRandom(1),
    script: (run: RunKey) => plans.get(run.workload_id) ?? {},
  };
  const harness: DriverHarness = {
    driver: createSimDriver(options),
    clock,
    reopen: () => createSimDriver(options),
    serving: specOf,
    ending(run) {
      const how = { code: 3, signal: null, out_of_memory: false };
      plans.set(run.workload_id, { exit: { after_ms: 20, how }, prints: 'one ü two' });
      return specOf(run);
    },
    keeping: (run) => ({
      ...specOf(run),
      workspace: { target: '/workspace', uid: 0, gid: 0, disk_bytes: null },
    }),
    async close() {
      rmSync(folder, { recursive: true });
    },
  };
  return harness;
});

function simulate(plan: SimPlan): { driver: Driver; clock: ReturnType<typeof steppingClock> } {
  const clock = steppingClock();
  return { clock, driver: createSimDriver({ clock, random: seededRandom(7), script: () => plan }) };
}

async function ask(driver: Driver, run: RunKey, method: string, path: string): Promise<string> {
  const connection = await driver.dial(run, 'http');
  return new Promise((resolve, reject) => {
    const asked = request({ createConnection: () => connection, method, path }, (response) => {
      let body = '';
      response.on('data', (chunk) => {
        body += chunk;
      });
      response.once('end', () => resolve(`${response.statusCode} ${body}`));
    });
    asked.once('error', reject);
    asked.end();
  });
}

test('a scripted start error is the error of the start, and leaves nothing', async () => {
  const { driver } = simulate({ start_error: 'sandbox_missing' });
  await assert.rejects(
    driver.start(specOf(newRun()), never),
    (error) => error instanceof DriverError && error.code === 'sandbox_missing',
  );
  assert.deepEqual(await driver.observe(), []);
});

test('a run gets ready when its script says so, and its answer names the sim', async () => {
  const { driver, clock } = simulate({ ready_after_ms: 500 });
  const run = newRun();
  await driver.start(specOf(run), never);
  assert.match(await ask(driver, run, 'GET', '/health'), /^503 /);
  clock.advance(500);
  assert.equal(await ask(driver, run, 'GET', '/health'), '200 {"status":"ok"}');
  const chat = await ask(driver, run, 'POST', '/v1/chat/completions');
  assert.ok(chat.startsWith('200 ') && chat.includes(sim_answer));
  assert.match(await ask(driver, run, 'GET', '/v1/models'), /^404 /);
});

test('a run that never gets ready does not', async () => {
  const { driver, clock } = simulate({ ready_after_ms: null });
  const run = newRun();
  await driver.start(specOf(run), never);
  clock.advance(1e9);
  assert.match(await ask(driver, run, 'GET', '/health'), /^503 /);
});

test('a run crashes at the moment of its script and not before', async () => {
  const how = { code: null, signal: 'SIGKILL', out_of_memory: true };
  const { driver, clock } = simulate({ exit: { after_ms: 1000, how } });
  await driver.start(specOf(newRun()), never);
  clock.advance(999);
  assert.equal((await driver.observe())[0]?.state, 'running');
  clock.advance(1);
  assert.deepEqual((await driver.observe())[0]?.exit, how);
});

test('a stop is refused as often as scripted, and the run goes on until then', async () => {
  const { driver } = simulate({ refused_stops: 2 });
  const run = newRun();
  await driver.start(specOf(run), never);
  for (const _ of [1, 2]) {
    await assert.rejects(driver.stop(run, 'park', 0), { code: 'stop_unproven' });
    assert.equal((await driver.observe())[0]?.state, 'running');
  }
  await driver.stop(run, 'park', 0);
  assert.equal((await driver.observe())[0]?.state, 'exited');
});

test('the same seed takes the same time to start, another seed another', async () => {
  const took = async (seed: number) => {
    const clock = steppingClock();
    const random = seededRandom(seed);
    const driver = createSimDriver({ clock, random, script: () => ({ start_ms: 1000 }) });
    const begun = clock.now();
    await driver.start(specOf(newRun()), never);
    return clock.now() - begun;
  };
  assert.equal(await took(3), await took(3));
  assert.notEqual(await took(3), await took(4));
});

test('what the script makes unknown is unknown', async () => {
  const { driver } = simulate({ is_unknown: true });
  await driver.start(specOf(newRun()), never);
  assert.equal((await driver.observe())[0]?.state, 'unknown');
});
