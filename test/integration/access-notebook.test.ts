/**
 * The main job of access, whole: JupyterLab on this machine and in a real container, opened from
 * the command line in a real browser, where a cell runs, a file goes up and comes down, a terminal
 * of ours answers, and the tab comes back after a stop and a start.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { chromium as browserType, type Page } from 'playwright-core';
import { createEngine } from '../../src/drivers/docker/engine.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { jupyterImage } from '../lib/docker-catalog.ts';
import { chromium, docker_socket, needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const native = { ...needs('chromium', 'python', 'bwrap', 'cgroup'), timeout: 400_000 };
const contained = { ...needs('chromium', 'docker', 'nft', 'debootstrap'), timeout: 600_000 };

test('a notebook is opened, used, stopped, started and used again in a browser', native, () =>
  story([]),
);

test('so is one in a fenced container', contained, async () => {
  const image = await jupyterImage(createEngine(docker_socket, systemClock));
  await story(['--image', image]);
});

async function story(args: string[]): Promise<void> {
  const data_dir = temporaryFolder();
  const program = await startProgram({ data_dir });
  const browser = await browserType.launch({
    executablePath: chromium,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  });
  try {
    const made = await program.cli(['launch', 'notebook', '--name', 'lab', ...args], 300_000);
    assert.equal(made.code, 0, made.stderr);
    const opened = await program.cli(['open', 'lab', '--no-browser', '--json']);
    const { url } = JSON.parse(opened.stdout) as { url: string };
    const context = await browser.newContext({ acceptDownloads: true });
    const page = await context.newPage();
    await page.goto(url);
    await page.waitForURL(/\/\/w-[0-9a-z]{26}\.localhost:\d+\/lab/, { timeout: 60_000 });
    assert.doesNotMatch(page.url(), /token|eat_/);
    await page.getByText('Python 3').first().waitFor({ timeout: 60_000 });
    await runCell(page, 'print(6 * 7 * 1000)', '42000');
    await moveFiles(page, data_dir);
    await useTerminal(await context.newPage(), program, page.url());
    await overStopAndStart(page, program);
    assert.doesNotMatch(program.said(), /eat_[0-9A-Za-z]{36}.*w-/);
  } finally {
    await program.cli(['rm', 'lab', '--json'], 60_000);
    await browser.close();
    await cleanUp(data_dir, program);
  }
}

/** The terminal of our own page, inside the same run: it sees the file that went up. */
async function useTerminal(page: Page, program: Program, site: string): Promise<void> {
  const id = /w-([0-9a-z]{26})/.exec(site)?.[1] ?? '';
  await page.goto(`${program.url}/terminal/${id}`);
  await page.locator('.xterm-helper-textarea').waitFor({ state: 'attached', timeout: 30_000 });
  const rows = page.locator('.xterm-rows');
  await rows.getByText(/[$#]/).first().waitFor({ timeout: 30_000 });
  await page.locator('.xterm-helper-textarea').focus();
  await page.keyboard.type('wc -c < big.txt; expr 6 \\* 7\n');
  await rows.getByText('20971520').waitFor({ timeout: 30_000 });
  await rows.getByText(/^42/).waitFor({ timeout: 30_000 });
  await page.close();
}

/** Opens a new notebook by the launcher, and runs one cell. */
async function runCell(page: Page, code: string, wanted: string): Promise<void> {
  await page.locator('.jp-LauncherCard[title*="Python 3"]').first().click();
  const cell = page.locator('.jp-Notebook .jp-CodeCell .cm-content').first();
  await cell.waitFor({ timeout: 60_000 });
  await page.getByText(/\| Idle/).waitFor({ timeout: 120_000 });
  await cell.click();
  await page.keyboard.type(code);
  const output = page.locator('.jp-OutputArea-output', { hasText: wanted }).first();
  // JupyterLab drops what is run while its kernel still begins, and a person runs it once more.
  for (let tries_left = 4; ; tries_left -= 1) {
    await cell.click();
    await page.keyboard.press('Shift+Enter');
    const seen = await output.waitFor({ timeout: 20_000 }).then(
      () => true,
      () => false,
    );
    if (seen) return;
    assert.ok(tries_left > 0, 'the cell never ran');
  }
}

/** Through the notebook's own API, as its upload and download do. */
async function moveFiles(page: Page, data_dir: string): Promise<void> {
  const size = 20 * 1024 * 1024;
  const told = (await page.evaluate(`(async () => {
    const content = 'a'.repeat(${size});
    const xsrf = /_xsrf=([^;]+)/.exec(document.cookie)?.[1] ?? '';
    const put = await fetch('/api/contents/big.txt', {
      method: 'PUT',
      headers: { 'content-type': 'application/json', 'x-xsrftoken': xsrf },
      body: JSON.stringify({ type: 'file', format: 'text', content }),
    });
    const got = await fetch('/files/big.txt');
    const part = await fetch('/files/big.txt', { headers: { range: 'bytes=5-9' } });
    return [put.status, (await got.arrayBuffer()).byteLength, part.status];
  })()`)) as number[];
  assert.deepEqual(told.slice(0, 2), [201, size]);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.evaluate(`(() => {
      const link = document.createElement('a');
      Object.assign(link, { href: '/files/big.txt?download=1', download: 'big.txt' });
      document.body.append(link);
      link.click();
    })()`),
  ]);
  const path = join(data_dir, 'downloaded');
  await download.saveAs(path);
  assert.equal(readFileSync(path).length, size);
  writeFileSync(path, '');
}

/** A tab that was left open says how it is, and is itself again. */
async function overStopAndStart(page: Page, program: Program): Promise<void> {
  const stopped = await program.cli(['stop', 'lab']);
  assert.equal(stopped.code, 0, stopped.stderr);
  await page.goto(new URL('/lab', page.url()).href);
  await page.getByText('lab is stopped').waitFor({ timeout: 20_000 });
  const started = await program.cli(['start', 'lab'], 300_000);
  assert.equal(started.code, 0, started.stderr);
  await page.locator('.jp-LabShell').waitFor({ timeout: 60_000 });
  const kept = (await page.evaluate(`fetch('/files/big.txt').then((got) => got.status)`)) as number;
  assert.equal(kept, 200, 'the workspace is that of before');
}
