/**
 * Signing in by name and password, joining by an invitation and setting a new password, each in a
 * real browser.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Browser, chromium as browserType, type Page } from 'playwright-core';
import { chromium, needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const password = 'a long enough word';
/** Where pictures of the pages go, for people to look at; nowhere unless it is named. */
const pictures = process.env.EINSORA_TEST_PICTURES ?? null;

describe('forms', { ...needs('chromium'), timeout: 120_000 }, () => {
  let program: Program;
  let browser: Browser;

  before(async () => {
    program = await startProgram({ data_dir: temporaryFolder(), until_ready: false });
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

  async function open(path: string): Promise<{ page: Page; complaints: string[] }> {
    const context = await browser.newContext();
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => {
      const is_refusal = /status of 4\d\d/.test(message.text());
      if (message.type() === 'error' && !is_refusal) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(path.startsWith('http') ? path : `${program.url}${path}`);
    return { page, complaints };
  }

  async function picture(page: Page, name: string): Promise<void> {
    if (pictures !== null) await page.screenshot({ path: `${pictures}/${name}.png` });
  }

  async function invite(): Promise<string> {
    const { body } = await program.api<{ url: string }>('/v1/invitations', {
      method: 'POST',
      body: { role: 'viewer' },
    });
    return body.url;
  }

  test('an invitation is followed, and the name and password sign in later', async () => {
    const joining = await open(await invite());
    const { page } = joining;
    await picture(page, 'join');
    await page.getByLabel('User name').fill('grace');
    await page.getByLabel('New password').fill(password);
    await page.getByLabel('Once more').fill(`${password}!`);
    await page.getByRole('button', { name: 'Join' }).click();
    await page.getByText('The two passwords are not the same.').waitFor();
    await page.getByLabel('Once more').fill(password);
    await page.getByRole('button', { name: 'Join' }).click();
    await page.waitForURL(`${program.url}/`);
    await page.getByText('grace, viewer').waitFor();
    await page.setViewportSize({ width: 340, height: 700 });
    await picture(page, 'joined');
    const width = await page.evaluate('document.documentElement.scrollWidth');
    assert.equal(width, 340, 'a narrow window is not scrolled sideways');
    assert.deepEqual(joining.complaints, []);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(`${program.url}/sign-in`);

    await picture(page, 'sign-in');
    await page.getByLabel('User name').fill('grace');
    await page.getByLabel('Password').fill('<b>wrong</b>');
    await page.getByLabel('Password').press('Enter');
    await page.getByText('The name or the password is not right.').waitFor();
    await picture(page, 'sign-in-wrong');
    assert.equal(await page.locator(':focus').getAttribute('id'), 'password');
    await page.getByLabel('Password').fill(password);
    await page.getByLabel('Password').press('Enter');
    await page.waitForURL(`${program.url}/`);
    await page.getByText('grace, viewer').waitFor();
    assert.deepEqual(joining.complaints, []);
  });

  test('a spent link says so, and offers the form', async () => {
    const url = `${program.url}/sign-in#t=eat_0000000000000000000000000000000000abcd`;
    const { page, complaints } = await open(url);
    await page.getByText('This one-time link was used or is too old.').waitFor();
    assert.equal(page.url(), `${program.url}/sign-in`);
    assert.ok(await page.getByLabel('Password').isVisible());
    await picture(page, 'spent');
    assert.deepEqual(complaints, []);
  });

  test('a reset link sets a new password, and is gone from the address at once', async () => {
    const joining = await open(await invite());
    await joining.page.getByLabel('User name').fill('linus');
    await joining.page.getByLabel('New password').fill(password);
    await joining.page.getByLabel('Once more').fill(password);
    await joining.page.getByRole('button', { name: 'Join' }).click();
    await joining.page.waitForURL(`${program.url}/`);
    const reset = await program.api<{ url: string }>('/v1/users/linus/reset', { method: 'POST' });
    const { page, complaints } = await open(reset.body.url);
    await page.getByRole('heading', { name: 'Set a new password' }).waitFor();
    assert.equal(page.url(), `${program.url}/reset`);
    assert.equal(await page.getByLabel('User name').isVisible(), false);
    await page.getByLabel('New password').fill('another long word');
    await page.getByLabel('Once more').fill('another long word');
    await picture(page, 'reset');
    await page.getByRole('button', { name: 'Set it' }).click();
    await page.getByText('The password is set').waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(`${program.url}/sign-in`);
    await joining.page.reload();
    await joining.page.getByText('You are not signed in.').waitFor();
    assert.equal(await joining.page.getByRole('heading', { name: 'Workloads' }).isVisible(), false);
    assert.deepEqual([...complaints, ...joining.complaints], []);
    const signed_in = await program.cli(['users', 'ls', '--json']);
    assert.equal(JSON.parse(signed_in.stdout).items.length, 3);
  });
});
