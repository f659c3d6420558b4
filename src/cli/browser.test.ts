import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openBrowser } from './browser.ts';

const folder = mkdtempSync(join(tmpdir(), 'einsora-browser-'));
after(() => rmSync(folder, { recursive: true }));

const url = 'http://127.0.0.1:1/sign-in#t=a&b';

function opener(script: string): Record<string, string> {
  writeFileSync(join(folder, 'xdg-open'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return { PATH: folder, DISPLAY: ':0', SEEN: join(folder, 'seen') };
}

test('the page is opened by the desktop, the address as one argument', async () => {
  assert.equal(await openBrowser(url, opener('printf "%s" "$*" > "$SEEN"'), 'linux'), true);
  assert.equal(readFileSync(join(folder, 'seen'), 'utf8'), url);
});

test('without a desktop nothing is started', async () => {
  const { DISPLAY, ...env } = opener('printf again > "$SEEN"');
  assert.equal(DISPLAY, ':0');
  assert.equal(await openBrowser(url, env, 'linux'), false);
  assert.equal(readFileSync(join(folder, 'seen'), 'utf8'), url);
});

test('an opener that fails or is missing is a value', async () => {
  assert.equal(await openBrowser(url, opener('exit 3'), 'linux'), false);
  assert.equal(await openBrowser(url, { PATH: '/nonexistent', DISPLAY: ':0' }, 'linux'), false);
});
