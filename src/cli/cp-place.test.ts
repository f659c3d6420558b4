import assert from 'node:assert/strict';
import { test } from 'node:test';
import { baseName, inside, parseEnd, parseEnds } from './cp-place.ts';

test('a place in a workload is told from a path here', () => {
  assert.deepEqual(parseEnd('lab:/a b'), { at: 'run', workload: 'lab', path: '/a b' });
  assert.deepEqual(parseEnd('a.b-c:/x:y'), { at: 'run', workload: 'a.b-c', path: '/x:y' });
  for (const path of ['./lab:/x', '/lab:/x', 'data.csv', 'Lab:/x', '../a:b']) {
    assert.deepEqual(parseEnd(path), { at: 'here', path });
  }
  assert.deepEqual(parseEnd('-'), { at: 'stdio' });
  assert.throws(() => parseEnd('lab:x'), /no absolute path/);
  assert.throws(() => parseEnd('lab:'), /no absolute path/);
});

test('exactly one end is in a workload', () => {
  assert.throws(() => parseEnds('a', 'b'), /neither/);
  assert.throws(() => parseEnds('-', '-'), /neither/);
  assert.throws(() => parseEnds('a:/x', 'b:/y'), /both/);
  assert.equal(parseEnds('-', 'b:/y').to.at, 'run');
});

test('names are put together as a run does it', () => {
  assert.deepEqual([inside('/a/', 'b'), inside('/', 'b')], ['/a/b', '/b']);
  assert.deepEqual([baseName('/a/b/'), baseName('/')], ['b', '']);
});
