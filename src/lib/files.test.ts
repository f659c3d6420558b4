/**
 * Small durable files: the old content or the new, for their owner alone.
 */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { freeBytes, isErrno, makePrivateFolder, readIfThere, writeDurably } from './files.ts';

function given(name: string, body: (folder: string) => void): void {
  test(name, () => {
    const folder = mkdtempSync(join(tmpdir(), 'einsora-files-'));
    try {
      body(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

given('a file has the last content, private unless told, and nothing lies beside it', (folder) => {
  const path = join(folder, 'a');
  writeDurably(path, 'first, and longer');
  writeDurably(path, 'second');
  assert.equal(readFileSync(path, 'utf8'), 'second');
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(folder), ['a']);
  writeDurably(path, 'for all', 0o644);
  assert.equal(statSync(path).mode & 0o777, 0o644);
});

given('content larger than one write is written whole', (folder) => {
  const text = 'ü'.repeat(3 * 1024 * 1024);
  writeDurably(join(folder, 'big'), text);
  assert.equal(readFileSync(join(folder, 'big'), 'utf8') === text, true);
});

given('what cannot be written leaves nothing behind', (folder) => {
  mkdirSync(join(folder, 'taken'));
  mkdirSync(join(folder, 'taken', 'inside'));
  assert.throws(() => writeDurably(join(folder, 'taken'), 'x'));
  assert.throws(() => writeDurably(join(folder, 'missing', 'a'), 'x'));
  assert.deepEqual(readdirSync(folder), ['taken']);
});

given('a file that is not there is null, another error is one', (folder) => {
  assert.equal(readIfThere(join(folder, 'nothing')), null);
  assert.throws(
    () => readIfThere(folder),
    (error) => isErrno(error, 'EISDIR'),
  );
});

given('a private folder is for its owner, and making it again no error', (folder) => {
  const path = join(folder, 'a', 'b');
  makePrivateFolder(path);
  makePrivateFolder(path);
  assert.equal(statSync(path).mode & 0o777, 0o700);
  assert.ok(freeBytes(path) > 0);
});

given('where no folder can be made, that is said at once', (folder) => {
  writeFileSync(join(folder, 'file'), '');
  assert.throws(() => makePrivateFolder(join(folder, 'file')), /EEXIST/);
  assert.throws(() => makePrivateFolder(join(folder, 'file', 'below')), /EEXIST/);
  // The system makes no folders there: Node's own recursion asks again for ever.
  if (existsSync('/proc/self')) assert.throws(() => makePrivateFolder('/proc/a/b'), /ENOENT/);
});
