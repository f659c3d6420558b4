/**
 * `npm run check`: lint and format, types, and the rules of the house, side by side in under 10 s.
 *
 * Prints what failed, then the facts that say how big the house is, and one line that sums it up.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/lib/clock.ts';
import { exec } from '../src/lib/exec.ts';
import { dependenciesOf } from '../test/lib/repository-rules.ts';
import { functionsOf } from '../test/lib/source-facts.ts';
import { listSources, listTexts } from '../test/lib/source-tree.ts';

const root = join(import.meta.dirname, '..');
const timeout_ms = 120_000;
const architecture = ['test/architecture.test.ts', 'test/architecture-rules.test.ts'];

const checks: { name: string; args: string[] }[] = [
  {
    name: 'biome',
    args: ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings'],
  },
  { name: 'types', args: ['node_modules/typescript/bin/tsc', '-p', '.'] },
  { name: 'architecture', args: ['--test', '--test-reporter=dot', ...architecture] },
];

const started_at = systemClock.monotonic();
const env = Object.fromEntries(
  Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  ),
);
const results = await Promise.all(
  checks.map(async ({ name, args }) => {
    const began_at = systemClock.monotonic();
    const result = await exec(process.execPath, args, { env, cwd: root, timeout_ms });
    return { name, ...result, ms: systemClock.monotonic() - began_at };
  }),
);
const failed = results.filter((result) => result.outcome !== 'exited' || result.code !== 0);
for (const { name, outcome, stdout, stderr } of failed) {
  const why = outcome === 'exited' ? '' : ` (${outcome})`;
  console.log(`── ${name}${why}\n${stdout}${stderr}`);
}
for (const { name, ms } of results) {
  const mark = failed.some((one) => one.name === name) ? '✘' : '✔';
  console.log(`${mark} ${name.padEnd(14)}${(ms / 1000).toFixed(1)} s`);
}
const facts = countFacts();
for (const [name, fact] of Object.entries(facts)) console.log(`  ${name.padEnd(18)}${fact}`);

const seconds = ((systemClock.monotonic() - started_at) / 1000).toFixed(1);
const verdict = failed.length === 0 ? 'ok' : `failed: ${failed.map(({ name }) => name).join(', ')}`;
const cores = availableParallelism();
console.log(`check ${verdict} · ${facts.files} files · ${seconds} s on ${cores} cores`);
process.exitCode = failed.length === 0 ? 0 : 1;

function countFacts() {
  const sources = listSources(root);
  const longest = <T extends { lines: number }>(facts: T[]) =>
    facts.reduce<T | null>((most, one) => (most && most.lines >= one.lines ? most : one), null);
  const file = longest(
    sources.map(({ path, text }) => ({ path, lines: text.trimEnd().split('\n').length })),
  );
  const fun = longest(
    sources.flatMap((source) =>
      functionsOf(source).map((one) => ({ ...one, where: `${source.path}:${one.line}` })),
    ),
  );
  const manifest = listTexts(root).find(({ path }) => path === 'package.json')?.text ?? '{}';
  return {
    files: sources.length,
    'largest file': `${file?.lines} lines, ${file?.path}`,
    'largest function': `${fun?.lines} lines, ${fun?.name} at ${fun?.where}`,
    dependencies: dependenciesOf(manifest).length,
  };
}
