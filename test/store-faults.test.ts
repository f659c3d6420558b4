/**
 * Every transaction of the registry, failing at each of its statements: nothing of it stays, and
 * the same call succeeds afterwards. The tests of the aggregates are the scenario: they run once
 * more, on a store that lets a transaction through only after it has failed everywhere.
 */
import assert from 'node:assert/strict';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { exec } from '../src/lib/exec.ts';
import { transactions } from '../src/store/transactions.ts';
import { needs } from './lib/parts.ts';
import type { StoreKind } from './lib/test-stores.ts';

const root = join(import.meta.dirname, '..');
/** Engines, processes and whole stories of their own: not for this. */
const without = /^src\/store\/(?:postgres|sqlite|memory|migrate|batch|model|restore|upgrade|full)/;
const ofStore = globSync('src/store/*.test.ts', { cwd: root }).filter(
  (path) => !without.test(path),
);
const ofRoutes = globSync('src/controlplane/routes/*.test.ts', { cwd: root });
const ofParts = ['accounting', 'secrets', 'activity-notes'].map(
  (name) => `src/controlplane/${name}.test.ts`,
);
/** Those that no test calls with these files; each needs its reason. */
const notTried = [
  'applyModelFiles', // its tests bring a fake hub and real files, which is too slow here
  'wishModelFile',
];

test('no transaction leaves anything when it fails anywhere, in memory', async () => {
  const tried = await runFaulty('memory', [...ofStore, ...ofRoutes, ...ofParts]);
  const missed = Object.keys(transactions).filter((name) => !tried.has(name));
  assert.deepEqual(
    missed.filter((name) => !notTried.includes(name)),
    [],
    'each is called by a test of its aggregate or its routes',
  );
});

test('no transaction leaves anything on Postgres either', needs('postgres'), async () => {
  const tried = await runFaulty('postgres', ofStore);
  assert.ok(tried.size >= 30, `${tried.size} were tried`);
});

/** The names of the transactions that were tried while those files passed. */
async function runFaulty(kind: StoreKind, files: string[]): Promise<Set<string>> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-faults-'));
  const log = join(folder, 'tried');
  try {
    const words = ['--test-isolation=none', '--test-force-exit', '--test-reporter=dot'];
    const result = await exec(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', ...words, '--test', ...files],
      {
        cwd: root,
        env: {
          PATH: process.env.PATH ?? '',
          HOME: process.env.HOME ?? '/',
          EINSORA_TEST_POSTGRES: process.env.EINSORA_TEST_POSTGRES ?? '',
          EINSORA_TEST_FAULTS: kind,
          EINSORA_TEST_FAULTS_LOG: log,
        },
        timeout_ms: 9 * 60_000,
      },
    );
    assert.equal(result.code, 0, `${result.outcome}\n${result.stdout}\n${result.stderr}`);
    return new Set(readFileSync(log, 'utf8').split('\n'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
