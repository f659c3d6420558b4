import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createProgram } from '../main.ts';
import { exitCodes } from './exit-codes.ts';
import { cliReference } from './reference.ts';

const page = cliReference(createProgram(process, () => async () => {}));

test('docs/cli.md is as the command line defines it', () => {
  const written = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8');
  assert.equal(written, page, 'stale: run npm run openapi');
});

test('the reference has each command, and each exit code', () => {
  for (const name of ['up', 'launch endpoint', 'launch vm', 'chat', 'rm', 'doctor', 'version']) {
    assert.ok(page.includes(`## einsora ${name}\n`), name);
  }
  for (const { code, means } of Object.values(exitCodes)) {
    assert.ok(page.includes(`| ${code} | ${means} |`), means);
  }
  assert.doesNotMatch(page, /--dev/);
});
