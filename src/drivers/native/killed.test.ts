/**
 * kill -9 of the program at any moment of a start: what runs is found, and nothing runs twice.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { newRun, until } from '../../../test/contracts/driver.ts';
import { nativeHarness, processesWith } from '../../../test/lib/native-harness.ts';
import { needs } from '../../../test/lib/parts.ts';
import { runName } from '../../core/run.ts';
import { spawnChild } from '../../lib/exec.ts';
import { fraction, seededRandom } from '../../lib/random.ts';

const child_program = join(import.meta.dirname, '../../../test/lib/native-child.ts');
const rounds = 12;
/** A start takes about 50 ms once the child is there. */
const longest_ms = 60;

test(
  'a start that was killed in the middle ran at most once, and is found',
  needs('bwrap', 'cgroup'),
  async () => {
    await using harness = nativeHarness();
    const random = seededRandom(2);
    for (let round = 0; round < rounds; round += 1) {
      const run = newRun();
      const args = [child_program, harness.folder, harness.install_id, run.workload_id];
      const child = spawnChild(process.execPath, args, { env: { PATH: '/usr/bin:/bin' } });
      const ended = new Promise((resolve) => child.once('exit', resolve));
      await new Promise((resolve) => child.stdout?.once('data', resolve));
      await harness.clock.sleep(fraction(random) * longest_ms);
      child.kill('SIGKILL');
      await ended;
      const next = harness.reopen();
      const seen = await next.observe();
      const keepers = () => processesWith(join(harness.folder, runName(run)));
      if (seen.length === 0) {
        // Nothing was found: nothing may come later either.
        await until(harness.clock, 'no keeper is left', async () => keepers().length === 0 || null);
      } else {
        assert.deepEqual(
          seen.map((one) => [one.run, one.state]),
          [[run, 'running']],
        );
      }
      // Starting it again gives one keeper, whatever happened before.
      await next.start(
        { ...harness.shell('while :; do sleep 0.05; done'), run },
        new AbortController().signal,
      );
      const again = await next.observe();
      assert.deepEqual(
        again.map((one) => one.state),
        ['running'],
      );
      if (seen.length === 1) assert.equal(again[0]?.started_at, seen[0]?.started_at);
      await next.stop(run, 'remove', 0);
      await until(harness.clock, 'no keeper is left', async () => keepers().length === 0 || null);
    }
  },
);
