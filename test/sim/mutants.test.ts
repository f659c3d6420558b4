/**
 * The mutants as data: each still is what it says, whatever happened to the program since.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { mutants } from './mutants/all.ts';
import { patch, patchesOf } from './mutants/mutant.ts';

const root = join(import.meta.dirname, '../..');

test('each mutant replaces a text that is exactly once in src, by another one', () => {
  for (const mutant of mutants) {
    for (const one of patchesOf(mutant)) {
      assert.match(one.file, /^src\//, mutant.name);
      const text = readFileSync(join(root, one.file), 'utf8');
      assert.doesNotThrow(() => patch(one, text), mutant.name);
      assert.notEqual(patch(one, text), text, mutant.name);
    }
  }
});

test('there are enough mutants, each with a name of its own, a bug and why it matters', () => {
  assert.ok(mutants.length >= 25, `${mutants.length} mutants`);
  assert.equal(new Set(mutants.map(({ name }) => name)).size, mutants.length);
  for (const { name, bug, why } of mutants) {
    assert.match(name, /^[a-z]+(-[a-z]+)+$/);
    for (const one of bug.split(', ')) assert.match(one, /^(I|B)-\d\d$|^[A-HU]\d{1,2}$/, name);
    assert.ok(why.length > 20, name);
  }
});

test('a text that is there twice, or not at all, is no mutant', () => {
  const one = { file: 'src/a.ts', find: 'x', replace: 'y' };
  assert.equal(patch(one, 'a x b'), 'a y b');
  assert.throws(() => patch(one, 'a x x'), /is 2 times in src\/a.ts: x/);
  assert.throws(() => patch(one, 'a b'), /is 0 times/);
});
