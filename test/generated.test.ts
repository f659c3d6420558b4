/**
 * What is generated and checked in is as the source makes it now.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { generatedDocuments } from '../scripts/openapi.ts';
import { routes } from '../src/contract/routes.ts';
import { reasons } from '../src/core/reasons.ts';
import { repository } from './lib/program.ts';

const documents = generatedDocuments();

for (const [path, text] of documents) {
  test(`${path} is fresh`, () => {
    const written = readFileSync(join(repository, path), 'utf8');
    assert.ok(written === text, `${path} is stale: npm run openapi`);
  });
}

test('the description of the API has every route, each with its errors', () => {
  const { paths } = JSON.parse(documents.get('docs/openapi.json') ?? '{}');
  for (const { method, path } of Object.values(routes)) {
    assert.ok(paths[path]?.[method], `${method} ${path}`);
  }
  const listed = Object.values(paths).flatMap((methods) => Object.keys(methods as object));
  assert.equal(listed.length, Object.keys(routes).length);
});

test('the page of codes has every code', () => {
  const page = documents.get('docs/errors.md') ?? '';
  for (const code of Object.keys(reasons)) assert.ok(page.includes(`| \`${code}\` |`), code);
});
