import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { forgetPage, openBrowser } from './browser.ts';

const folder = mkdtempSync(join(tmpdir(), 'einsora-browser-'));
after(() => rmSync(folder, { recursive: true }));

const page = join(folder, 'open.html');
const seen = join(folder, 'seen');
const url = 'http://127.0.0.1:1/sign-in#t=a&b';

beforeEach(() => {
  rmSync(page, { force: true });
  rmSync(seen, { force: true });
});

function opener(script: string): Record<string, string> {
  writeFileSync(join(folder, 'xdg-open'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return { PATH: folder, DISPLAY: ':0', SEEN: seen };
}

test('the opener is given a private file that goes to the address, and no secret', async () => {
  const env = opener('printf "%s" "$*" > "$SEEN"');
  assert.equal(await openBrowser(url, folder, env, 'linux'), true);
  assert.equal(readFileSync(seen, 'utf8'), pathToFileURL(page).href);
  assert.equal(statSync(page).mode & 0o777, 0o600);
  const text = readFileSync(page, 'utf8');
  const target = /http-equiv="refresh" content="0; url=([^"]*)"/.exec(text)?.[1];
  assert.equal(target, url.replace('&', '&#38;'));
  forgetPage(folder);
  assert.equal(existsSync(page), false);
});

test('an address cannot break out of the page', async () => {
  const nasty = `http://127.0.0.1:1/"><script>alert('1')</script>`;
  await openBrowser(nasty, folder, opener('exit 0'), 'linux');
  assert.doesNotMatch(readFileSync(page, 'utf8'), /<script|"">/);
});

test('without a desktop nothing is started and nothing written', async () => {
  const { DISPLAY, ...env } = opener('printf again > "$SEEN"');
  assert.equal(DISPLAY, ':0');
  assert.equal(await openBrowser(url, folder, env, 'linux'), false);
  assert.deepEqual([existsSync(seen), existsSync(page)], [false, false]);
});

test('an opener that fails or is missing is a value, and leaves no file', async () => {
  assert.equal(await openBrowser(url, folder, opener('exit 3'), 'linux'), false);
  assert.equal(existsSync(page), false);
  const env = { PATH: '/nonexistent', DISPLAY: ':0' };
  assert.equal(await openBrowser(url, folder, env, 'linux'), false);
  assert.equal(existsSync(page), false);
  assert.equal(await openBrowser(url, join(folder, 'none'), opener('exit 0'), 'linux'), false);
});
