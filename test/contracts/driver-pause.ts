/**
 * What every driver that can make a run stand still must do. A part of the contract of drivers.
 */
import assert from 'node:assert/strict';
import { DriverError } from '../../src/drivers/driver.ts';
import { type Body, newRun, untilHealthy } from './driver.ts';

const never = new AbortController().signal;

export const pauseTests: [string, Body][] = [
  [
    'a paused run is there, stands still, is not reached, and goes on where it was',
    async (harness) => {
      const { driver, serving } = harness;
      const run = newRun();
      await driver.start(serving(run), never);
      await untilHealthy(harness, run);
      const [before] = await driver.observe();
      await driver.pause?.(run);
      await driver.pause?.(run);
      const [paused] = await driver.observe();
      assert.deepEqual(paused, { ...before, paused: true });
      const burnt = (await driver.stats(run)).cpu_ms ?? 0;
      await assert.rejects(driver.dial(run, 'http'), DriverError);
      await assert.rejects(driver.connect(run, 80), DriverError);
      const asked = { argv: ['true'], env: {}, cwd: null, terminal: null };
      await assert.rejects(driver.exec(run, asked as never, never), DriverError);
      if (driver.name !== 'sim') assert.equal((await driver.stats(run)).cpu_ms, burnt);
      await driver.resume?.(run);
      await driver.resume?.(run);
      assert.deepEqual(await driver.observe(), [before]);
      assert.equal(await untilHealthy(harness, run), 200);
    },
  ],
  [
    'a restarted program finds a paused run paused, and can let it go on',
    async (harness) => {
      const { driver, serving, reopen } = harness;
      const run = newRun();
      await driver.start(serving(run), never);
      await untilHealthy(harness, run);
      await driver.pause?.(run);
      const next = reopen();
      assert.equal((await next.observe())[0]?.paused, true);
      await next.resume?.(run);
      assert.equal((await next.observe())[0]?.paused, undefined);
      assert.equal(await untilHealthy({ ...harness, driver: next }, run), 200);
    },
  ],
  [
    'a paused run is stopped as any other, and leaves nothing',
    async (harness) => {
      const { driver, serving } = harness;
      const run = newRun();
      await driver.start(serving(run), never);
      await untilHealthy(harness, run);
      await driver.pause?.(run);
      await driver.stop(run, 'park', 1000);
      const [parked] = await driver.observe();
      assert.deepEqual([parked?.state, parked?.paused], ['exited', undefined]);
      await driver.pause?.(run);
      await driver.stop(run, 'remove', 0);
      assert.deepEqual(await driver.observe(), []);
    },
  ],
  [
    'pausing, resuming and lowering what is not there is no error',
    async ({ driver, serving }) => {
      const run = newRun();
      await driver.pause?.(run);
      await driver.resume?.(run);
      await driver.lower?.(run, true);
      await driver.start(serving(run), never);
      await driver.lower?.(run, true);
      await driver.lower?.(run, false);
      assert.equal((await driver.observe())[0]?.state, 'running');
    },
  ],
];
