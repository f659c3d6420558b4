/**
 * Output kept from filling the disk, exit statuses, /proc lines and kernel settings understood.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { exitOf } from './label.ts';
import { boundOutput, readOutput } from './output.ts';
import { parseStat } from './process.ts';
import { namespaceFix } from './sandbox.ts';

function withOutput(content: string, body: (path: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-output-'));
  const path = join(folder, 'out.log');
  writeFileSync(path, content);
  try {
    body(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('output over its limit keeps its end, in the same file, and says what went', () => {
  withOutput(`${'ü'.repeat(150_000)}the end\n`, (path) => {
    const before = statSync(path).ino;
    assert.equal(boundOutput(path, 200_000), true);
    const kept = readFileSync(path, 'utf8');
    assert.match(kept, /^\[einsora: .* of older output dropped\]\nü+the end\n$/);
    assert.ok(kept.length < 70_000);
    assert.equal(statSync(path).ino, before);
    assert.equal(boundOutput(path, 200_000), false);
  });
});

test('an offset from before a shortening begins again at the start', () => {
  withOutput('short\n', (path) => {
    assert.equal(readOutput(path, 1_000_000, 100, false).text, 'short\n');
  });
});

test('a character that is only half printed waits for its other half', () => {
  const half = Buffer.from('a€').subarray(0, 3);
  withOutput('', (path) => {
    writeFileSync(path, half);
    assert.deepEqual(readOutput(path, 0, 100, false), { text: 'a', next_offset: 1, end: false });
    assert.deepEqual(readOutput(path, 0, 100, true), {
      text: 'a\ufffd',
      next_offset: 3,
      end: true,
    });
  });
});

test('reading gets on even with a limit smaller than a character', () => {
  withOutput('€€', (path) => {
    const piece = readOutput(path, 0, 1, false);
    assert.deepEqual([piece.text, piece.next_offset], ['€', 3]);
  });
});

test('output that is not there yet is empty', () => {
  const nothing = { text: '', next_offset: 0, end: false };
  assert.deepEqual(readOutput('/nonexistent/out.log', 0, 100, false), nothing);
});

test('a status above 128 is told as a signal too, without losing the number', () => {
  const end = (code: number | null, signal: string | null, out_of_memory = false) => ({
    code,
    signal,
    out_of_memory,
  });
  assert.deepEqual(exitOf(0, 0), end(0, null));
  assert.deepEqual(exitOf(137, 0), end(137, 'SIGKILL'));
  assert.deepEqual(exitOf(137, 1), end(137, 'SIGKILL', true));
  assert.deepEqual(exitOf(255, 0), end(255, null));
  assert.deepEqual(exitOf(null, 0), end(null, null));
  // A child of a program that went on and ended well.
  assert.deepEqual(exitOf(0, 3), end(0, null));
});

test('a process may have brackets and spaces in its name; a zombie is gone', () => {
  const rest = Array.from({ length: 30 }, (_, index) => index + 4).join(' ');
  assert.equal(parseStat(`7 (a) b (c)) S ${rest}`), 22);
  assert.equal(parseStat(`7 (sh) Z ${rest}`), null);
  assert.throws(() => parseStat('7 (sh) S'));
});

test('where user namespaces are forbidden the fix names the setting at fault', () => {
  assert.equal(namespaceFix({}), null);
  assert.equal(
    namespaceFix({ 'kernel.unprivileged_userns_clone': '0' }),
    'sysctl -w kernel.unprivileged_userns_clone=1',
  );
  assert.match(
    namespaceFix({ 'kernel.apparmor_restrict_unprivileged_userns': '1' }) ?? '',
    /^sysctl -w kernel\.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile/,
  );
  assert.equal(namespaceFix({ 'user.max_user_namespaces': '96364' }), null);
});
