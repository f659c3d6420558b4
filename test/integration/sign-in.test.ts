/**
 * Signing in by the one-time link, what a session may do, and the first page in a real browser.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { hostname } from 'node:os';
import { after, before, test } from 'node:test';
import { chromium as browserType } from 'playwright-core';
import { chromium, needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

let program: Program;

before(async () => {
  program = await startProgram({ data_dir: temporaryFolder() });
});

after(() => cleanUp(program.data_dir, program));

test('the printed link signs in once; the second time it is spent', async () => {
  const printed = /sign in +(\S+)/.exec(program.said())?.[1] ?? '';
  assert.ok(printed.startsWith(`${program.url}/sign-in#t=`), 'the secret stands in the fragment');
  const token = tokenOf(printed);
  const first = await signIn(token);
  assert.equal(first.status, 204);
  const [cookie = ''] = first.cookies;
  const { port } = new URL(program.url);
  assert.match(cookie, new RegExp(`^einsora_session_${port}=[A-Za-z0-9_-]{43};`));
  const flags = cookie.split('; ').slice(1);
  assert.ok(flags.includes('HttpOnly') && flags.includes('SameSite=Strict'), cookie);
  assert.ok(flags.includes('Path=/') && !flags.some((flag) => /^domain/i.test(flag)), cookie);

  const second = await signIn(token);
  assert.equal(second.status, 401);
  assert.equal(codeOf(second), 'sign_in_link_spent');
  assert.deepEqual(second.cookies, []);
});

test('a session reads; it writes only from our own page', async () => {
  const cookie = (await signIn(await freshToken())).cookies[0]?.split(';')[0] ?? '';
  const me = await call('GET', '/v1/me', { cookie });
  assert.equal(me.status, 200);
  assert.equal((me.body as { role: string }).role, 'operator');
  assert.equal((await call('GET', '/v1/me', {})).status, 401);

  const plan = { kind: 'endpoint', model: 'smollm2-135m' };
  const own = { cookie, origin: program.url };
  assert.equal((await call('POST', '/v1/plan', own, plan)).status, 200);
  const strangers: Record<string, string>[] = [
    { cookie },
    { cookie, origin: 'http://evil.test' },
    { cookie, origin: 'null' },
    { cookie, origin: program.url, 'sec-fetch-site': 'cross-site' },
    { cookie, origin: program.url, 'sec-fetch-site': 'same-site' },
    { cookie, 'sec-fetch-site': 'none' },
  ];
  for (const headers of strangers) {
    const refused = await call('POST', '/v1/plan', headers, plan);
    assert.equal(refused.status, 403, JSON.stringify(headers));
    assert.equal(codeOf(refused), 'cross_site');
  }
});

test('another host name is refused before anything else, whatever the path', async () => {
  const { port } = new URL(program.url);
  for (const host of [
    'evil.test',
    `evil.test:${port}`,
    'localhost:1',
    `127.0.0.1.evil.test:${port}`,
  ]) {
    for (const path of ['/', '/healthz', '/v1/me', '/v1/models']) {
      const refused = await call('GET', path, { host });
      assert.equal(refused.status, 421, `${host}${path}`);
      assert.equal(codeOf(refused), 'wrong_host');
    }
  }
});

test('the page in a real browser: signed in by the link, this machine, and why not the rest', {
  ...needs('chromium'),
  timeout: 60_000,
}, async () => {
  const opened = await program.cli(['open', '--no-browser', '--json']);
  const { url } = JSON.parse(opened.stdout) as { url: string };
  const browser = await browserType.launch({
    executablePath: chromium,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  });
  try {
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => {
      const is_bad = message.type() === 'error' || message.type() === 'warning';
      if (is_bad) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('requestfailed', (failed) => {
      // What is under way ends when the page is left, the live stream among it.
      const was_left = failed.failure()?.errorText === 'net::ERR_ABORTED';
      if (!was_left) complaints.push(`${failed.url()} failed`);
    });
    await page.goto(url);
    await page.waitForURL(`${program.url}/`);
    assert.equal(page.url(), `${program.url}/`, 'the secret is gone from the address');
    await page.getByRole('heading', { name: hostname() }).waitFor();
    assert.match((await page.locator('#can').textContent()) ?? '', /linux-native/);
    const cannot = (await page.locator('#cannot').textContent()) ?? '';
    assert.match(cannot, /libvirt/);
    assert.match(cannot, /not part of this version/);
    assert.match((await page.locator('#who').textContent()) ?? '', /operator/);
    assert.ok(await page.getByText('launch endpoint smollm2-135m').isVisible());
    assert.equal(await page.getByRole('status').isVisible(), false, 'nothing is amiss');

    await page.goBack().catch(() => null);
    assert.ok(!page.url().includes('eat_'), 'nor is it in the history');
    assert.deepEqual(complaints, []);
  } finally {
    await browser.close();
  }
});

test('64 browsers with one link at once: exactly one is signed in', async () => {
  // A program of its own: attempts are counted, and the other tests need theirs.
  const crowded = await startProgram({ data_dir: temporaryFolder() });
  try {
    const token = await freshToken(crowded);
    const answers = await Promise.all(Array.from({ length: 64 }, () => signIn(token, crowded)));
    const refused = answers.filter(({ status }) => status !== 204);
    assert.equal(refused.length, 63);
    assert.equal(answers.flatMap(({ cookies }) => cookies).length, 1);
    assert.deepEqual(new Set(refused.map(({ status }) => status)), new Set([401]));
    assert.deepEqual(new Set(refused.map(codeOf)), new Set(['sign_in_link_spent']));
  } finally {
    await cleanUp(crowded.data_dir, crowded);
  }
});

type Answer = { status: number; body: unknown; cookies: string[] };

function signIn(token: string, at = program): Promise<Answer> {
  return call('POST', '/v1/session', { origin: at.url }, { token }, at);
}

async function freshToken(at = program): Promise<string> {
  const { status, body } = await at.api<{ url: string }>('/v1/sign-in-links', {
    method: 'POST',
  });
  assert.equal(status, 201);
  return tokenOf(body.url);
}

function tokenOf(link: string): string {
  return new URLSearchParams(new URL(link).hash.slice(1)).get('t') ?? '';
}

function codeOf({ body }: Answer): string {
  return (body as { error: { code: string } }).error.code;
}

/** A request whose headers are all the test's own, which fetch does not allow. */
function call(
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: unknown,
  at = program,
): Promise<Answer> {
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const type = payload === undefined ? {} : { 'content-type': 'application/json' };
  const { port } = new URL(at.url);
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        host: '127.0.0.1',
        port,
        method,
        path,
        agent: false,
        headers: { host: `localhost:${port}`, ...type, ...headers },
      },
      async (answer) => {
        const chunks: Buffer[] = [];
        for await (const chunk of answer) chunks.push(chunk as Buffer);
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({
          status: answer.statusCode ?? 0,
          body: text.startsWith('{') ? JSON.parse(text) : text,
          cookies: answer.headers['set-cookie'] ?? [],
        });
      },
    );
    asked.on('error', reject);
    asked.end(payload);
  });
}
