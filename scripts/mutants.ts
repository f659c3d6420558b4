/**
 * `npm run mutants`: puts each mutant into the program and plays stories until one of them violates
 * an invariant.
 *
 * `npm run mutants -- [NAME ... | --sample] [--seeds 500] [--hours 2] [--machines 5] [--at-once N]`
 *
 * Invariants: each mutant is caught, or this fails; a seed that fails without the mutant catches
 * nothing; a line for each says by which seed and which invariant, and with the same `--hours` and
 * `--machines`, and `--mutant`, `npm run sim` plays it again.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../src/lib/clock.ts';
import { mutantOf, mutants, sample } from '../test/sim/mutants/all.ts';
import type { Mutant } from '../test/sim/mutants/mutant.ts';
import { spawnSim } from '../test/sim/spawn.ts';
import type { Line } from '../test/sim/worker.ts';

const root = join(import.meta.dirname, '..');
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'boolean', default: false },
    seeds: { type: 'string', default: '500' },
    hours: { type: 'string', default: '2' },
    machines: { type: 'string', default: '5' },
    'at-once': { type: 'string', default: String(availableParallelism()) },
  },
});
const { seeds, hours, machines } = values;
const all = values.sample ? sample : mutants;
const waiting = positionals.length === 0 ? [...all] : positionals.map(mutantOf);
const count = waiting.length;
const width = Math.max(...waiting.map(({ name }) => name.length));
/** Seeds that were played without any mutant, and whether they hold. */
const sound = new Map<number, Promise<boolean>>();
let caught = 0;

console.log(row('mutant', 'bug', 'seed', 'caught by', 'seconds'));
await Promise.all(Array.from({ length: Number(values['at-once']) }, work));
console.log(`${count} mutants · ${caught} caught · ${count - caught} survive`);
process.exitCode = caught === count ? 0 : 1;

async function work(): Promise<void> {
  for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
    await hunt(mutant);
  }
}

async function hunt({ name, bug }: Mutant): Promise<void> {
  const began = systemClock.monotonic();
  const story = ['--hours', hours, '--machines', machines, '--mutant', name];
  const words = ['--seeds', seeds, ...story];
  const lines: Line[] = [];
  const read = (line: Line) => void lines.push(line);
  const broken = await spawnSim({ root, share: 0, of: 1, words, mutant: name, read });
  const found = lines.find((line) => line.violation !== null);
  const seconds = ((systemClock.monotonic() - began) / 1000).toFixed(1);
  if (broken !== null) console.log(broken);
  const is_sound = found !== undefined && (await isSound(found.seed));
  if (broken === null && is_sound) caught += 1;
  const { violation = null } = found ?? {};
  const what = violation === null ? 'SURVIVES' : `${violation.invariant}: ${violation.message}`;
  const by = found !== undefined && !is_sound ? `FAILS WITHOUT IT: ${what}` : what;
  console.log(row(name, bug, String(found?.seed ?? '-'), by, seconds));
}

/** Whether a story holds without a mutant. */
function isSound(seed: number): Promise<boolean> {
  const known = sound.get(seed);
  if (known !== undefined) return known;
  const words = ['--seeds', '1', '--seed', String(seed), '--hours', hours, '--machines', machines];
  const lines: Line[] = [];
  const read = (line: Line) => void lines.push(line);
  const played = spawnSim({ root, share: 0, of: 1, words, mutant: null, read }).then(
    (broken) => broken === null && lines.length > 0 && lines[0]?.violation === null,
  );
  sound.set(seed, played);
  return played;
}

function row(name: string, bug: string, seed: string, by: string, seconds: string): string {
  const cells = [name.padEnd(width), bug.padEnd(12), seed.padStart(5), seconds.padStart(7), by];
  return cells.join('  ').slice(0, 160);
}
