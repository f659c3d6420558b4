/**
 * The page of a workload's terminal, in a real Chromium that is signed in by a link.
 */
import assert from 'node:assert/strict';
import { type Browser, chromium as browserType, type Page } from 'playwright-core';
import { chromium } from './parts.ts';
import type { Program } from './program.ts';

export type TerminalPage = {
  browser: Browser;
  page: Page;
  /** What stands on its screen, as text. */
  shown(): Promise<string>;
  /** Fails where it does not come within ten seconds. */
  shows(pattern: RegExp): Promise<void>;
};

/** Whoever opened it closes the browser. */
export async function openTerminal(program: Program, workload_id: string): Promise<TerminalPage> {
  const browser = await browserType.launch({
    executablePath: chromium,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  });
  const link = await program.cli(['open', '--no-browser', '--json']);
  const page = await browser.newPage();
  await page.goto(JSON.parse(link.stdout).url);
  await page.waitForURL(`${program.url}/`);
  await page.goto(`${program.url}/terminal/${workload_id}`);
  const shown = () =>
    page.evaluate<string>("document.querySelector('.xterm-rows')?.textContent ?? ''");
  async function shows(pattern: RegExp): Promise<void> {
    let last = '';
    for (let tries = 0; tries < 200; tries += 1) {
      last = await shown();
      if (pattern.test(last)) return;
      await page.waitForTimeout(50);
    }
    assert.fail(`it does not show ${pattern}: ${last}`);
  }
  return { browser, page, shown, shows };
}
