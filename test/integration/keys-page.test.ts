/**
 * The page of keys in a real browser, by the keyboard: a key is made for a real engine, its line
 * for curl works as it stands, its use is shown, its limits are set, it is revoked.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Browser, chromium as browserType, type Page } from 'playwright-core';
import { exec } from '../../src/lib/exec.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { chromium, needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const password = 'a long enough word';
/** Where pictures of the page go, for people to look at; nowhere unless it is named. */
const pictures = process.env.EINSORA_TEST_PICTURES ?? null;
const parts = needs('chromium', 'llama', 'bwrap', 'cgroup');

describe('the page of keys', { ...parts, timeout: 180_000 }, () => {
  let program: Program;
  let browser: Browser;
  const complaints: string[] = [];

  before(async () => {
    program = await startProgram({ data_dir: temporaryFolder() });
    browser = await browserType.launch({
      executablePath: chromium,
      args: [
        ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
        ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
      ],
    });
  });
  after(async () => {
    await browser?.close();
    await cleanUp(program.data_dir, program);
  });

  async function newPage(): Promise<Page> {
    const context = await browser.newContext();
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const page = await context.newPage();
    page.on('console', (message) => {
      const is_refusal = /status of 4\d\d|ERR_CONNECTION_REFUSED/.test(message.text());
      if (message.type() === 'error' && !is_refusal) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    return page;
  }

  async function openAsOwner(): Promise<Page> {
    const page = await newPage();
    const link = await program.cli(['open', '--no-browser', '--json']);
    await page.goto((JSON.parse(link.stdout) as { url: string }).url);
    await page.waitForURL(`${program.url}/`);
    await page.getByRole('link', { name: 'Keys' }).click();
    await page.waitForURL(`${program.url}/keys`);
    return page;
  }

  async function picture(page: Page, name: string): Promise<void> {
    if (pictures !== null) await page.screenshot({ path: `${pictures}/${name}.png` });
  }

  const press = async (page: Page, ...names: string[]) => {
    for (const name of names) await page.keyboard.press(name);
  };
  const focused = (page: Page) => page.locator(':focus');

  test('who is not signed in is told so, and gets here by signing in; a viewer looks', async () => {
    const page = await newPage();
    await page.goto(`${program.url}/keys`);
    await page.getByText('You are not signed in.').waitFor();
    assert.equal(await page.getByRole('table').isVisible(), false);
    await page.getByRole('link', { name: 'Sign in' }).click();
    await page.waitForURL(/\/sign-in/);
    const { url } = (
      await program.api<{ url: string }>('/v1/invitations', { body: { role: 'viewer' } })
    ).body;
    await page.goto(url);
    await page.getByLabel('User name').fill('vera');
    await page.getByLabel('New password').fill(password);
    await page.getByLabel('Once more').fill(password);
    await page.getByRole('button', { name: 'Join' }).click();
    await page.getByText('vera, viewer').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(/\/sign-in/);
    await page.goto(`${program.url}/sign-in?next=/keys`);
    await page.getByLabel('User name').fill('vera');
    await page.getByLabel('Password').fill(password);
    await press(page, 'Enter');
    await page.waitForURL(`${program.url}/keys`);
    await page.getByText('With your role, viewer, you look at keys and make none.').waitFor();
    await page.getByText('No key yet.').waitFor();
    await page.getByText('There is no model to open yet.').waitFor();
    assert.equal(await page.getByText('Make a key').isVisible(), false);
    await picture(page, 'keys-viewer');
    assert.deepEqual(complaints, []);
  });

  test('a key is made, used by its line for curl, limited and revoked, all by the keyboard', async () => {
    const known = writeKnownAnswerModel(join(program.data_dir, 'known.gguf'));
    const launched = await program.cli(
      ['launch', 'endpoint', join(program.data_dir, 'known.gguf'), '--name', 'known', '--json'],
      60_000,
    );
    assert.equal(launched.code, 0, launched.stderr);
    const page = await openAsOwner();
    const summary = page.getByText('Make a key');
    await summary.waitFor();
    await summary.focus();
    await press(page, 'Enter', 'Tab');
    assert.equal(await focused(page).inputValue(), 'known');
    assert.ok(await focused(page).isChecked(), 'the only model there is');
    await page.getByRole('spinbutton', { name: 'Tokens in any minute' }).focus();
    await page.keyboard.type('5000');
    await picture(page, 'keys-new');
    await press(page, 'Enter');
    const curl = page.getByLabel('For curl');
    await curl.waitFor();
    assert.equal(await focused(page).textContent(), 'Your new key');
    await picture(page, 'keys-made');
    const key = await page.getByLabel('The key').inputValue();
    assert.match(key, /^ept_/);
    await page.getByRole('button', { name: 'Copy the key' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), key);
    assert.match(await page.getByLabel('For Python').inputValue(), /base_url="http.*\/v1"/);
    const answered = await exec('sh', ['-c', `${await curl.inputValue()} -s`], {
      env: { PATH: process.env.PATH ?? '' },
      timeout_ms: 30_000,
    });
    assert.equal(JSON.parse(answered.stdout).choices[0].message.content, known.sentence);

    await page.getByRole('button', { name: 'I have kept it' }).focus();
    await press(page, 'Enter');
    assert.equal(await page.getByLabel('The key').inputValue(), '', 'it is shown once');
    await page.reload();
    const row = page.getByRole('row', { name: `…${key.slice(-4)}` });
    await row.waitFor();
    await picture(page, 'keys-list');
    await page.emulateMedia({ colorScheme: 'dark' });
    await picture(page, 'keys-dark');
    assert.match(
      (await row.textContent()) ?? '',
      /of 5,000 tokens.*in 30 days.*just now1 request, \d+ tokens/,
    );
    await limitAndRevoke(page, key.slice(-4));
    assert.deepEqual(complaints, []);
  });

  async function limitAndRevoke(page: Page, last_four: string): Promise<void> {
    const limits = page.getByRole('button', { name: `Limits of key …${last_four}` });
    await limits.focus();
    await press(page, 'Enter');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Requests in any minute').fill('9');
    await dialog.getByLabel('Tokens in any minute').fill('');
    await picture(page, 'keys-limits');
    await press(page, 'Escape');
    assert.equal(await dialog.isVisible(), false);
    assert.equal(await focused(page).getAttribute('aria-label'), `Limits of key …${last_four}`);
    await press(page, 'Enter');
    await dialog.getByLabel('Requests in any minute').fill('999999999');
    await press(page, 'Enter');
    await page.locator('#limits-error:not(:empty)').waitFor();
    await dialog.getByLabel('Requests in any minute').fill('9');
    await dialog.getByLabel('Tokens in any minute').fill('');
    await press(page, 'Enter');
    await page.getByText('hold from its next request on').waitFor();
    await page.getByText('1 of 9 requests').waitFor();

    await page.getByRole('button', { name: `Revoke key …${last_four}` }).focus();
    await press(page, 'Enter');
    assert.equal(await focused(page).textContent(), 'Keep it', 'what does no harm comes first');
    await picture(page, 'keys-revoke');
    await press(page, 'Shift+Tab', 'Enter');
    await page.getByText(`The key …${last_four} opens nothing any more.`).waitFor();
    await page.getByLabel(/Show also those/).check();
    await page.getByText(/revoked just now/).waitFor();
    await picture(page, 'keys-revoked');
    await page.setViewportSize({ width: 340, height: 700 });
    await picture(page, 'keys-narrow');
    const width = await page.evaluate('document.documentElement.scrollWidth');
    assert.equal(width, 340, 'a narrow window is not scrolled sideways');
  }

  test('a control plane that is gone is said, with the command that helps', async () => {
    const page = await openAsOwner();
    await page.getByText('Make a key').waitFor();
    await program.interrupt();
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page.getByText('The control plane does not answer. Start it with:').waitFor();
    await page.getByText('bin/einsora up').waitFor();
    await picture(page, 'keys-gone');
    assert.deepEqual(complaints, []);
  });
});
