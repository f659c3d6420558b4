/**
 * Every situation of this folder, played: `EINSORA_SITUATIONS=print` prints what was answered.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { answers, parseSituation, playSituation } from '../lib/situation.ts';

const folder = import.meta.dirname;
const files = readdirSync(folder).filter((name) => name.endsWith('.md'));
const prints = process.env.EINSORA_SITUATIONS === 'print';

for (const file of files) {
  const situation = parseSituation(readFileSync(join(folder, file), 'utf8'));
  test(`${situation.title} (${file})`, async () => {
    for await (const { line, expected, actual } of playSituation(situation)) {
      if (prints) console.log([`$ bin/einsora ${line}`, ...actual].join('\n'));
      else assert.ok(answers(expected, actual), told(line, expected, actual));
    }
  });
}

test('there are twenty situations or more', () => {
  assert.ok(files.length >= 20, `${files.length} situations`);
});

function told(line: string, expected: string[], actual: string[]): string {
  const lines = ['', `$ bin/einsora ${line}`, ...actual, '— and not —', ...expected];
  return lines.join('\n');
}
