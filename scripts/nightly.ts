/**
 * `npm run nightly`: what is too slow for every push: the suites of test/nightly, every bench in
 * its short form, every mutant, and 20,000 stories of the simulator, a twentieth of them long.
 *
 * Invariants: all of it runs, whatever failed before; the last line sums it up.
 */
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../src/lib/clock.ts';
import { spawnChild } from '../src/lib/exec.ts';

const root = join(import.meta.dirname, '..');
const started_at = systemClock.monotonic();

const suites = globSync('test/nightly/**/*.ts', { cwd: root }).sort();
const benches = existsSync(join(root, 'bench'))
  ? readdirSync(join(root, 'bench'))
      .filter((file) => file.endsWith('.ts'))
      .filter((file) => /^export async function bench\b/m.test(readBench(file)))
      .map((file) => file.slice(0, -'.ts'.length))
      .sort()
  : [];

const failed: string[] = [];
for (const path of suites) await step(path, ['--test', path]);
for (const name of benches) await step(`bench ${name}`, ['scripts/bench.ts', name, '--quick']);
await step('mutants', ['scripts/mutants.ts']);
// Long stories for what takes hours to go wrong, short ones for as many beginnings as a night has.
const short = ['--hours', '2', '--machines', '5'];
await step('long stories', ['scripts/sim.ts', '--seeds', '1000']);
await step('short stories', ['scripts/sim.ts', '--seed', '1001', '--seeds', '19000', ...short]);

const minutes = ((systemClock.monotonic() - started_at) / 60_000).toFixed(1);
const verdict = failed.length === 0 ? 'ok' : `failed: ${failed.join(', ')}`;
const what = `${suites.length} suites, ${benches.length} benches, mutants, simulator`;
console.log(`nightly ${verdict} · ${what} · ${minutes} min`);
process.exitCode = failed.length === 0 ? 0 : 1;

async function step(name: string, args: string[]): Promise<void> {
  console.log(`── ${name}`);
  const child = spawnChild(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
    env: process.env,
    cwd: root,
    inherit: true,
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  if (code !== 0) failed.push(name);
}

function readBench(file: string): string {
  return readFileSync(join(root, 'bench', file), 'utf8');
}
