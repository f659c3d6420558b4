/**
 * Live events on the real program: the page in a real browser, and `events -f`, hear of what
 * changes without asking again and again, and no longer than their proof is good.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { chromium as browserType } from 'playwright-core';
import { followLive } from '../lib/live-client.ts';
import { chromium, needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

let program: Program;

before(async () => {
  program = await startProgram({ data_dir: temporaryFolder() });
});

after(() => cleanUp(program.data_dir, program));

/** An instance: nothing here runs one, so it waits for ever and costs nothing. */
async function launch(name: string): Promise<void> {
  // No driver runs one yet, so it waits.
  const body = { kind: 'vm', name };
  const { status } = await program.api('/v1/workloads', { method: 'POST', body });
  assert.equal(status, 201);
}

test('the page hears of a launch and of the end of its session', {
  ...needs('chromium'),
  timeout: 60_000,
}, async () => {
  const link = await program.cli(['open', '--no-browser', '--json']);
  const { url } = JSON.parse(link.stdout) as { url: string };
  const browser = await browserType.launch({
    executablePath: chromium,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  });
  try {
    const page = await browser.newPage();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    // Waited for from before the page is asked for: a quick page has sent it by the time it shows.
    const streams = page.waitForRequest((request) => request.url().endsWith('/v1/events'));
    await page.goto(url);
    await page.waitForURL(`${program.url}/`);
    await streams;
    await page.getByText('launch endpoint smollm2-135m').waitFor();
    await launch('heard-of');
    await page.getByRole('cell', { name: 'heard-of', exact: true }).waitFor({ timeout: 10_000 });
    await page.getByText('queued (place 1)').waitFor({ timeout: 10_000 });
    const opened = asked.filter((path) => path === '/v1/events').length;
    assert.equal(opened, 1, 'one stream, however much changes');

    const { body } = await program.api<{ items: { id: string }[] }>('/v1/sessions');
    for (const { id } of body.items) await program.api(`/v1/sessions/${id}`, { method: 'DELETE' });
    await page.getByText('You are not signed in').waitFor({ timeout: 10_000 });
  } finally {
    await browser.close();
  }
});

test('a stream of a token that is revoked ends within a second', async () => {
  const made = await program.api<{ token: string; id: string }>('/v1/tokens', {
    method: 'POST',
    body: { name: 'listens' },
  });
  assert.equal(made.status, 201);
  const client = await followLive(program.url.replace('localhost', '127.0.0.1'), made.body.token);
  await client.until((heard) => heard.some((one) => one.type === 'hello'));
  const began = performance.now();
  await program.api(`/v1/tokens/${made.body.id}`, { method: 'DELETE' });
  await client.ended;
  assert.ok(performance.now() - began < 1000);
});
