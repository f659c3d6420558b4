/**
 * Holds the rules of the house: layers, exclusive imports, sizes, words, documents.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gatewayRoutes, routes } from '../src/contract/routes.ts';
import { driverIsolation } from '../src/core/trust.ts';
import { decisionProblems, dependencyProblems, unwantedWords } from './lib/repository-rules.ts';
import { type Problem, problemsOf } from './lib/source-rules.ts';
import { listSources, listTexts } from './lib/source-tree.ts';

const root = join(import.meta.dirname, '..');
const sources = listSources(root);
const texts = listTexts(root);
const read = (path: string) => readFileSync(join(root, path), 'utf8');

test('every source keeps to the layers, limits and language of the house', () => {
  assert.ok(sources.length > 20, 'the sources were not found');
  none(sources.flatMap(problemsOf));
});

test('no text names a machine, a registry, a ticket or a tool', () => {
  none(texts.flatMap(unwantedWords));
});

test('every dependency is pinned and has its line in docs/dependencies.md', () => {
  none(dependencyProblems(read('package.json'), read('docs/dependencies.md')));
});

test('decision records are numbered, titled and listed', () => {
  const records = texts.filter(
    ({ path }) => path.startsWith('docs/adr/') && path !== 'docs/adr/README.md',
  );
  assert.ok(records.length > 10);
  none(decisionProblems(records, read('docs/adr/README.md')));
});

test('the registry of drivers has a line for every driver there can be', () => {
  const registry = sources.find(({ path }) => path === 'src/drivers/registry.ts');
  assert.ok(registry, 'there is no src/drivers/registry.ts');
  const { code, strings } = registry;
  const named = (name: string) =>
    strings.some((literal) => literal.value === name) ||
    new RegExp(`^\\s*${name}:`, 'm').test(code);
  assert.deepEqual(
    Object.keys(driverIsolation).filter((name) => !named(name)),
    [],
  );
});

test('every route says who may call it', () => {
  const rows = [
    ...Object.values(routes).map((route) => ({ path: route.path, auth: route.auth })),
    ...gatewayRoutes,
  ];
  const kinds = ['anyone', 'user', 'endpoint-key'];
  assert.deepEqual(
    rows.filter(({ auth }) => !kinds.includes(auth?.who)).map(({ path }) => path),
    [],
  );
  assert.ok(rows.length > 10);
});

function none(problems: Problem[]): void {
  const lines = problems.map(({ path, line, problem }) => `${path}:${line}: ${problem}`);
  assert.equal(lines.length, 0, `\n${lines.join('\n')}\n`);
}
