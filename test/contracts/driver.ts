/**
 * What every driver must do, whatever it drives. A driver's own test file calls `driverContract`.
 *
 * Invariants: each test makes its own harness and closes it; nothing is left running.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { makeId } from '../../src/core/ids.ts';
import type { RunKey } from '../../src/core/run.ts';
import {
  type Driver,
  DriverError,
  no_stats,
  type Observation,
  type RunSpec,
} from '../../src/drivers/driver.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { pauseTests } from './driver-pause.ts';
import { sessionTests } from './driver-sessions.ts';

export type DriverHarness = {
  driver: Driver;
  clock: Clock;
  /** A second driver on the same machine and data, as after a restart of the program. */
  reopen(): Driver;
  /** A program that prints a line, serves HTTP on the port `http` and stays. */
  serving(run: RunKey): RunSpec;
  /** A program that prints `one ü two` and ends by itself with code 3. */
  ending(run: RunKey): RunSpec;
  /**
   * A program with a workspace that prints `found it` where the workspace holds what an earlier one
   * left there, else `found nothing`, leaves something there, and stays.
   */
  keeping(run: RunKey): RunSpec;
  close(): Promise<void>;
};

type Options = { skip: string | false };
export type Body = (harness: DriverHarness) => Promise<void>;

const never = new AbortController().signal;
const gone: RunKey = { workload_id: '0'.repeat(26), replica: 0, run_epoch: 9 };

export function newRun(): RunKey {
  const workload_id = makeId(1_700_000_000_000, systemRandom.bytes(10));
  return { workload_id, replica: 0, run_epoch: 1 };
}

export function driverContract(
  name: string,
  options: Options,
  makeHarness: () => Promise<DriverHarness>,
): void {
  const it = (what: string, body: Body) =>
    test(`${name}: ${what}`, options, async () => {
      const harness = await makeHarness();
      try {
        await body(harness);
      } finally {
        for (const { run } of await harness.driver.observe()) {
          await harness.driver.stop(run, 'remove', 0);
        }
        await harness.close();
      }
    });
  const all = [...startTests, ...endTests, ...streamTests, ...workspaceTests, ...sessionTests];
  all.push(...pauseTests);
  for (const [what, body] of all) it(what, body);
}

const startTests: [string, Body][] = [
  [
    'a probe on a machine that can run it is ready',
    async ({ driver }) => {
      const probe = await driver.probe();
      assert.deepEqual([probe.driver, probe.ready, probe.reason], [driver.name, true, null]);
      assert.ok(probe.findings.length > 0);
    },
  ],
  [
    'a started run is observed as running, with its spec hash',
    async ({ driver, serving }) => {
      const run = newRun();
      await driver.start({ ...serving(run), spec_hash: 'hash-of-it' }, never);
      const [seen] = await driver.observe();
      assert.deepEqual([seen?.run, seen?.state, seen?.exit], [run, 'running', null]);
      assert.equal(seen?.spec_hash, 'hash-of-it');
      assert.ok((seen?.started_at ?? 0) > 0);
    },
  ],
  [
    'starting a run again, in turn or at once, starts nothing',
    async ({ driver, serving }) => {
      const spec = serving(newRun());
      await Promise.all([driver.start(spec, never), driver.start(spec, never)]);
      const before = await driver.observe();
      await driver.start(spec, never);
      assert.equal(before.length, 1);
      assert.deepEqual(await driver.observe(), before);
    },
  ],
  [
    'a run that ended is not started again',
    async (harness) => {
      const { driver, ending } = harness;
      const spec = ending(newRun());
      await driver.start(spec, never);
      const ended = await untilEnded(harness, spec.run);
      await driver.start(spec, never);
      assert.deepEqual(await driver.observe(), [ended]);
    },
  ],
  [
    'a start that was called off leaves nothing',
    async ({ driver, serving }) => {
      const spec = serving(newRun());
      const early = driver.start(spec, AbortSignal.abort());
      await assert.rejects(early, (error) => error instanceof DriverError);
      assert.deepEqual(await driver.observe(), []);
      const cancel = new AbortController();
      const starting = driver.start(spec, cancel.signal);
      cancel.abort();
      const settled = await starting.then(
        () => 'started',
        (error) => error instanceof DriverError && 'refused',
      );
      assert.ok(settled === 'started' || settled === 'refused');
      assert.equal((await driver.observe()).length, settled === 'started' ? 1 : 0);
    },
  ],
  [
    'a start that cannot be done says why and leaves nothing',
    async ({ driver, serving }) => {
      const wrong = { ...serving(newRun()), argv: [], image: null };
      await assert.rejects(
        driver.start(wrong, never),
        (error) => error instanceof DriverError && error.code === 'start_failed',
      );
      assert.deepEqual(await driver.observe(), []);
    },
  ],
  [
    'a restarted program finds its runs as they were',
    async ({ driver, serving, reopen }) => {
      await driver.start(serving(newRun()), never);
      await driver.start(serving(newRun()), never);
      const before = await driver.observe();
      assert.equal(before.length, 2);
      assert.deepEqual(await reopen().observe(), before);
    },
  ],
];

const endTests: [string, Body][] = [
  [
    'the exit code of a run is known, also to a restarted program',
    async (harness) => {
      const run = newRun();
      await harness.driver.start(harness.ending(run), never);
      const ended = await untilEnded(harness, run);
      assert.deepEqual(ended.exit, { code: 3, signal: null, out_of_memory: false });
      assert.deepEqual(await harness.reopen().observe(), [ended]);
    },
  ],
  [
    'a parked run has ended and keeps its output; a removed one leaves nothing',
    async (harness) => {
      const { driver, serving } = harness;
      const run = newRun();
      await driver.start(serving(run), never);
      await untilPrinted(harness, run);
      await driver.stop(run, 'park', 1000);
      const [parked] = await driver.observe();
      assert.equal(parked?.state, 'exited');
      assert.notEqual((await driver.logs(run, 0, 1000)).text, '');
      await driver.stop(run, 'remove', 1000);
      assert.deepEqual(await driver.observe(), []);
      assert.deepEqual(await driver.logs(run, 0, 1000), { text: '', next_offset: 0, end: true });
    },
  ],
  [
    'stopping what is gone or never was is no error',
    async ({ driver, serving }) => {
      await driver.stop(gone, 'park', 0);
      await driver.stop(gone, 'remove', 0);
      const run = newRun();
      await driver.start(serving(run), never);
      await Promise.all([driver.stop(run, 'remove', 0), driver.stop(run, 'remove', 0)]);
      await driver.stop(run, 'park', 0);
      assert.deepEqual(await driver.observe(), []);
    },
  ],
  [
    'a stop that comes during the start wins',
    async ({ driver, serving }) => {
      const spec = serving(newRun());
      const starting = driver.start(spec, never);
      const stopping = driver.stop(spec.run, 'remove', 0);
      await Promise.all([starting, stopping]);
      assert.deepEqual(await driver.observe(), []);
    },
  ],
];

const streamTests: [string, Body][] = [
  [
    'a dialled port speaks HTTP with the run',
    async (harness) => {
      const run = newRun();
      await harness.driver.start(harness.serving(run), never);
      assert.equal(await untilHealthy(harness, run), 200);
    },
  ],
  [
    'dialling another port, or a run that is not there, is refused',
    async (harness) => {
      const { driver, serving } = harness;
      const refused = (error: unknown) =>
        error instanceof DriverError && error.code === 'port_unreachable';
      const run = newRun();
      await driver.start(serving(run), never);
      await assert.rejects(driver.dial(run, 'other'), refused);
      await assert.rejects(driver.dial(run, '../http'), refused);
      await assert.rejects(driver.dial(gone, 'http'), refused);
      await assert.rejects(driver.connect(gone, 80), DriverError);
      await driver.stop(run, 'park', 0);
      await assert.rejects(driver.dial(run, 'http'), refused);
    },
  ],
  [
    'output is read in pieces, from either end, without breaking characters',
    async (harness) => {
      const { driver, ending } = harness;
      const run = newRun();
      await driver.start(ending(run), never);
      await untilEnded(harness, run);
      const whole = await driver.logs(run, 0, 100_000);
      assert.ok(whole.text.includes('one ü two'));
      assert.equal(whole.end, true);
      let pieces = '';
      for (let offset = 0, end = false; !end; ) {
        const piece = await driver.logs(run, offset, 5);
        assert.ok(piece.end || piece.next_offset > offset);
        pieces += piece.text;
        ({ next_offset: offset, end } = piece);
      }
      assert.equal(pieces, whole.text);
      assert.equal((await driver.logs(run, -4, 100)).text, whole.text.slice(-4));
    },
  ],
  [
    'a running run has figures, one that is not there has none',
    async (harness) => {
      const { driver, serving } = harness;
      const run = newRun();
      await driver.start(serving(run), never);
      await untilHealthy(harness, run);
      const stats = await driver.stats(run);
      assert.ok(stats.cpu_ms !== null && stats.cpu_ms >= 0);
      assert.ok(stats.memory_bytes !== null && stats.memory_bytes > 0);
      assert.deepEqual(await driver.stats(gone), no_stats);
    },
  ],
];

const workspaceTests: [string, Body][] = [
  [
    'what a workload keeps is there for its next run, also after a restart, and for no other one',
    async (harness) => {
      const run = newRun();
      assert.match(await foundBy(harness, run), /found nothing/);
      await harness.driver.stop(run, 'park', 1000);
      const second = { ...run, run_epoch: 2 };
      assert.match(await foundBy(harness, second, harness.reopen()), /found it/);
      await harness.driver.stop(run, 'remove', 0);
      await harness.driver.stop(second, 'remove', 1000);
      assert.match(await foundBy(harness, { ...run, run_epoch: 3 }), /found it/);
      assert.match(await foundBy(harness, newRun()), /found nothing/);
    },
  ],
  [
    'what a workload keeps ends with erase, and not while a run of it is there',
    async (harness) => {
      const { driver } = harness;
      const run = newRun();
      await foundBy(harness, run);
      await assert.rejects(
        driver.erase(run.workload_id),
        (error) => error instanceof DriverError && error.code === 'workspace_in_use',
      );
      await driver.stop(run, 'park', 1000);
      await assert.rejects(driver.erase(run.workload_id), DriverError);
      await driver.stop(run, 'remove', 0);
      await driver.erase(run.workload_id);
      assert.match(await foundBy(harness, { ...run, run_epoch: 2 }), /found nothing/);
    },
  ],
  [
    'erasing what was never kept, or twice, is no error',
    async (harness) => {
      const { driver } = harness;
      await driver.erase(gone.workload_id);
      const run = newRun();
      await foundBy(harness, run);
      await driver.stop(run, 'remove', 1000);
      await driver.erase(run.workload_id);
      await driver.erase(run.workload_id);
    },
  ],
];

/** Starts a run that looks into its workspace, and gives what it printed. */
async function foundBy(
  { driver: first, clock, keeping }: DriverHarness,
  run: RunKey,
  driver = first,
): Promise<string> {
  await driver.start(keeping(run), never);
  return until(clock, 'it looked into its workspace', async () => {
    const { text } = await driver.logs(run, 0, 1000);
    return text.includes('found') ? text : null;
  });
}

/** Looks again until `look` gives something; fails after ten seconds. */
export async function until<T>(
  clock: Clock,
  what: string,
  look: () => Promise<T | null>,
): Promise<T> {
  const deadline = clock.monotonic() + 10_000;
  for (;;) {
    const found = await look();
    if (found !== null) return found;
    assert.ok(clock.monotonic() < deadline, `this did not happen: ${what}`);
    await clock.sleep(10);
  }
}

export function untilEnded(
  { driver, clock }: { driver: Driver; clock: Clock },
  run: RunKey,
): Promise<Observation> {
  return until(clock, 'the run ended', async () => {
    const all = await driver.observe();
    const seen = all.find((one) => one.run.workload_id === run.workload_id);
    return seen?.state === 'exited' ? seen : null;
  });
}

function untilPrinted({ driver, clock }: DriverHarness, run: RunKey): Promise<string> {
  return until(clock, 'it printed something', async () => {
    return (await driver.logs(run, 0, 1000)).text || null;
  });
}

export function untilHealthy({ driver, clock }: DriverHarness, run: RunKey): Promise<number> {
  return until(clock, 'it answered', async () => {
    const connection = await driver.dial(run, 'http').catch(() => null);
    if (connection === null) return null;
    return new Promise((resolve) => {
      const asked = request({ createConnection: () => connection, path: '/health' }, (response) => {
        response.resume();
        response.once('end', () => resolve(response.statusCode ?? null));
      });
      asked.once('error', () => resolve(null));
      asked.end();
    });
  });
}
