/**
 * A program that starts one run with the native driver, to be killed in the middle of it.
 *
 * usage: native-child.ts FOLDER INSTALL_ID WORKLOAD_ID
 */
import { createNativeDriver } from '../../src/drivers/native/native.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { shellSpec } from './native-harness.ts';
import { testBwrap } from './parts.ts';

const [folder = '', install_id = '', workload_id = ''] = process.argv.slice(2);
const driver = createNativeDriver({
  folder,
  workspaces: `${folder}-workspaces`,
  install_id,
  bwrap: testBwrap,
  clock: systemClock,
  random: systemRandom,
  log: silentLog,
});
const run = { workload_id, replica: 0, run_epoch: 1 };
process.stdout.write('starting\n');
const spec = { ...shellSpec('while :; do sleep 0.05; done'), run };
await driver.start(spec, new AbortController().signal);
process.stdout.write('started\n');
await systemClock.sleep(60_000);
