/**
 * `npm test`: every test of the program, or with `npm test -- PATTERN ...` the files whose path
 * holds a pattern.
 *
 * Invariants: what was skipped is printed, with why; a test skipped for a part that EINSORA_REQUIRE
 * names counts as failed; the very last line is `N passed, N failed, N skipped`.
 */
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { findPostgres, shareCluster } from '../test/lib/postgres.ts';

const root = join(import.meta.dirname, '..');
const required = (process.env.EINSORA_REQUIRE ?? '').split(',').filter((name) => name !== '');
const test_timeout_ms = 10 * 60_000;

const patterns = process.argv.slice(2);
const files = ['src/**/*.test.ts', 'test/**/*.test.ts']
  .flatMap((glob) => globSync(glob, { cwd: root }))
  .filter((path) => patterns.length === 0 || patterns.some((part) => path.includes(part)))
  .sort();

const skips: { name: string; file: string; why: string }[] = [];
const counts = { passed: 0, failed: 0 };

if (files.length === 0) {
  console.log(`No test file matches ${patterns.join(', ')}.`);
  finish(1);
} else {
  const stop = await shareServer();
  try {
    await runAll();
  } finally {
    await stop();
  }
  finish(0);
}

/** One Postgres for all files, where one of them may want it and the machine has it. */
async function shareServer(): Promise<() => Promise<void>> {
  const wanted = files.some((path) => /postgres|Store\b|Kinds\b/.test(readSource(path)));
  return wanted && findPostgres() !== null ? shareCluster() : async () => {};
}

function readSource(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** Files run in processes of their own; as many at once as there are cores, four at most. */
async function runAll(): Promise<void> {
  const stream = run({
    files: files.map((path) => join(root, path)),
    cwd: root,
    concurrency: Math.min(4, availableParallelism()),
    timeout: test_timeout_ms,
    execArgv: ['--disable-warning=ExperimentalWarning'],
  });
  stream.on('test:pass', (event) => {
    // A suite that is skipped as a whole runs none of its tests, and stands for them.
    if (event.details.type === 'suite' && event.skip === undefined) return;
    if (event.skip === undefined) counts.passed += 1;
    else skips.push({ name: event.name, file: event.file ?? '', why: reasonOf(event.skip) });
  });
  stream.on('test:fail', (event) => {
    if (event.details.type !== 'suite') counts.failed += 1;
  });
  for await (const text of stream.compose(spec)) process.stdout.write(text);
}

function reasonOf(skip: string | boolean): string {
  return typeof skip === 'string' && skip !== '' ? skip : 'no reason given';
}

function finish(more_failures: number): void {
  const why = Map.groupBy(skips, (skip) => skip.why);
  if (why.size > 0) console.log('\nSkipped:');
  for (const [reason, tests] of why) {
    console.log(`  ${tests.length} because ${reason}`);
    const places = new Set(tests.map(({ file }) => relative(root, file)));
    for (const place of places) console.log(`      ${place}`);
  }
  const refused = skips.filter(({ why }) => required.some((part) => names(why, part)));
  for (const { name, why } of refused) {
    console.log(`✖ required by EINSORA_REQUIRE, and skipped: ${name} (${why})`);
  }
  const missing = new Set(
    refused.flatMap(({ why }) => required.filter((part) => names(why, part))),
  );
  const real = required.filter((part) => !missing.has(part));
  if (real.length > 0) console.log(`Real here, nothing in their place: ${real.join(', ')}`);
  const failed = counts.failed + more_failures + refused.length;
  process.exitCode = failed === 0 ? 0 : 1;
  const skipped = skips.length - refused.length;
  console.log(`${counts.passed} passed, ${failed} failed, ${skipped} skipped`);
}

function names(reason: string, part: string): boolean {
  return reason.split(/[\s,:;()]+/).includes(part.trim());
}
