/**
 * A process of its own that installs one wheel: called with the options as JSON, prints the result.
 */
import { systemClock } from '../../src/lib/clock.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { installWheel } from '../../src/lib/wheel.ts';

const result = await installWheel({
  ...JSON.parse(process.argv[2] ?? '{}'),
  clock: systemClock,
  random: systemRandom,
  signal: new AbortController().signal,
});
process.stdout.write(JSON.stringify(result));
