/**
 * `npm run sim`: plays stories of a whole deployment in virtual time, spread over the cores, and
 * says which invariant did not hold, with one line that plays it again.
 *
 * Invariants: a failing seed is shortened; the very last line sums it up; with `--mutant` the patch
 * is one that must be caught, so there a violation is what is wanted.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/lib/clock.ts';
import { parseSim } from '../test/sim/options.ts';
import { spawnSim } from '../test/sim/spawn.ts';
import type { Line } from '../test/sim/worker.ts';

const root = join(import.meta.dirname, '..');
const words = process.argv.slice(2);
const options = parseSim(words);
const began = systemClock.monotonic();
const sums = { seeds: 0, virtual_ms: 0, events: 0, violations: 0 };
const workers = Math.min(options.count, availableParallelism());
const failures = await Promise.all(
  Array.from({ length: workers }, (_, share) =>
    spawnSim({ root, share, of: workers, words, mutant: options.mutant, read }),
  ),
);
for (const failure of failures) if (failure !== null) console.log(failure);

const minutes = (systemClock.monotonic() - began) / 60_000;
const hours = sums.virtual_ms / 3_600_000;
const is_broken = failures.some((failure) => failure !== null) || sums.seeds === 0;
const is_caught = sums.violations > 0;
console.log(
  [
    `sim ${sums.seeds} seeds`,
    `${hours.toFixed(1)} virtual hours`,
    `${Math.round(hours / minutes)} virtual hours a minute`,
    `${sums.events} events`,
    `${sums.violations} violations`,
  ].join(' · '),
);
process.exitCode = !is_broken && is_caught === (options.mutant !== null) ? 0 : 1;

function read(line: Line): void {
  if (line.short !== null) {
    console.log(`  shortened to ${line.short.items} items: ${line.short.replay}`);
    return;
  }
  sums.seeds += 1;
  sums.virtual_ms += line.virtual_ms;
  sums.events += line.events;
  if (line.violation === null) {
    if (options.count === 1) console.log(`seed ${line.seed}: trace ${line.hash}`);
    return;
  }
  sums.violations += 1;
  console.log(`✘ seed ${line.seed}: ${line.violation.invariant}: ${line.violation.message}`);
  console.log(`  ${line.replay}`);
}
