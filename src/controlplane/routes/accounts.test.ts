/**
 * Signing in by a one-time link, and what a browser may do with the session it gets.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, createRig, everyValue, type Rig } from '../../../test/lib/rig.ts';
import { limits } from '../../contract/limits.ts';
import { makeToken } from '../../core/token.ts';

const own = 'http://localhost:4600';

function given(name: string, body: (rig: Rig) => Promise<void>): void {
  test(name, async () => {
    const rig = await createRig();
    try {
      await body(rig);
    } finally {
      await rig.close();
    }
  });
}

async function linkOf(rig: Rig): Promise<string> {
  const { body } = await ask(rig, 'POST', '/v1/sign-in-links');
  const url = new URL(String(body.url));
  assert.equal(url.search, '', 'a secret never stands where servers log it');
  return url.hash.replace('#t=', '');
}

const signIn = (rig: Rig, token: string) =>
  ask(rig, 'POST', '/v1/session', { token: null, body: { token } });

/** The cookie of a session, as a browser would send it. */
async function cookieOf(rig: Rig): Promise<string> {
  const answer = await signIn(rig, await linkOf(rig));
  assert.equal(answer.status, 204);
  return answer.headers.get('set-cookie')?.split(';')[0] ?? '';
}

function browse(rig: Rig, method: string, path: string, headers: Record<string, string>) {
  return ask(rig, method, path, { token: null, headers });
}

given('a link signs one browser in, once', async (rig) => {
  const link = await linkOf(rig);
  const first = await signIn(rig, link);
  assert.equal(first.status, 204);
  const cookie = first.headers.get('set-cookie') ?? '';
  assert.match(cookie, /^einsora_session_4600=[\w-]{43}; Path=\/; Max-Age=\d+; HttpOnly; /);
  assert.match(cookie, /SameSite=Strict$/);
  const again = await signIn(rig, link);
  assert.deepEqual([again.status, again.body.error?.code], [401, 'sign_in_link_spent']);
});

given('of sixteen browsers with one link, one is signed in', async (rig) => {
  const link = await linkOf(rig);
  const answers = await Promise.all(Array.from({ length: 16 }, () => signIn(rig, link)));
  assert.equal(answers.filter((answer) => answer.status === 204).length, 1);
});

given('a link is spent after its time', async (rig) => {
  const link = await linkOf(rig);
  rig.clock.stepWall(limits.sign_in_link_ms);
  assert.equal((await signIn(rig, link)).status, 401);
});

given('guessing links is slow for everybody together', async (rig) => {
  const statuses: number[] = [];
  for (let count = 0; count <= limits.sign_in_attempts_per_minute; count += 1) {
    statuses.push((await signIn(rig, makeToken('eat_', rig.random.bytes(32)))).status);
  }
  assert.deepEqual([statuses.at(-2), statuses.at(-1)], [401, 429]);
  await rig.clock.advance(60_001);
  assert.equal((await signIn(rig, await linkOf(rig))).status, 204);
});

given('a session reads, and its cookie is stored by nobody', async (rig) => {
  const cookie = await cookieOf(rig);
  const { status, body } = await browse(rig, 'GET', '/v1/me', { cookie });
  assert.deepEqual([status, body.name, body.role], [200, 'op', 'operator']);
  const value = cookie.split('=')[1] ?? '';
  const kept = [...(await everyValue(rig.store)), JSON.stringify(rig.lines)].join('\n');
  assert.equal(kept.includes(value), false);
});

given('a write by a cookie must come from our own page', async (rig) => {
  const cookie = await cookieOf(rig);
  const tries: [Record<string, string>, number][] = [
    [{ 'sec-fetch-site': 'same-origin' }, 201],
    [{ 'sec-fetch-site': 'same-site' }, 403],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ 'sec-fetch-site': 'none' }, 403],
    [{ 'sec-fetch-site': 'same-site', origin: own }, 403],
    [{ 'sec-fetch-site': 'cross-site', origin: own }, 403],
    [{ origin: own }, 201],
    [{ origin: 'http://localhost:4601' }, 403],
    [{ origin: 'http://127.0.0.1:4600' }, 403],
    [{ origin: 'https://localhost:4600' }, 403],
    [{ origin: 'http://w-a.localhost:4600' }, 403],
    [{ origin: 'null' }, 403],
    [{ origin: `${own}/` }, 403],
    [{ referer: `${own}/` }, 403],
    [{}, 403],
  ];
  for (const [headers, status] of tries) {
    const answer = await browse(rig, 'POST', '/v1/sign-in-links', { cookie, ...headers });
    assert.equal(answer.status, status, JSON.stringify(headers));
    if (status === 403) assert.equal(answer.body.error?.code, 'cross_site');
  }
});

given('a token ignores cookies and pages entirely', async (rig) => {
  const cookie = await cookieOf(rig);
  const headers = { cookie, 'sec-fetch-site': 'cross-site' };
  assert.equal((await ask(rig, 'POST', '/v1/sign-in-links', { headers })).status, 201);
  const bad = { token: 'tsk_wrong', headers: { cookie } };
  assert.equal((await ask(rig, 'GET', '/v1/me', bad)).status, 401);
  for (const authorization of ['Basic b3A6', 'Bearer', 'Bearer  ', `Token ${rig.token}`]) {
    const answer = await browse(rig, 'GET', '/v1/me', { cookie, authorization });
    assert.equal(answer.status, 401, authorization);
  }
});

given('a cookie of another port, or two that disagree, is nobody', async (rig) => {
  const cookie = await cookieOf(rig);
  const other = cookie.replace('_4600=', '_4601=');
  const twice = `${cookie}; einsora_session_4600=${'a'.repeat(43)}`;
  for (const wrong of [other, twice, `${cookie}x`, 'einsora_session_4600=']) {
    assert.equal((await browse(rig, 'GET', '/v1/me', { cookie: wrong })).status, 401, wrong);
  }
  const beside = `theme=dark; ${cookie}; other=1`;
  assert.equal((await browse(rig, 'GET', '/v1/me', { cookie: beside })).status, 200);
});

given('signing out ends the session everywhere', async (rig) => {
  const cookie = await cookieOf(rig);
  const from = { cookie, 'sec-fetch-site': 'same-origin' };
  const out = await browse(rig, 'DELETE', '/v1/session', from);
  assert.equal(out.status, 204);
  assert.match(out.headers.get('set-cookie') ?? '', /Max-Age=0/);
  assert.equal((await browse(rig, 'GET', '/v1/me', { cookie })).status, 401);
});

given('a session ends by rest, unless it is used, and by age in any case', async (rig) => {
  const cookie = await cookieOf(rig);
  const status = async () => (await browse(rig, 'GET', '/v1/me', { cookie })).status;
  const step_ms = limits.session_idle_ms - 120_000;
  for (let used_ms = step_ms; used_ms < limits.session_ms; used_ms += step_ms) {
    rig.clock.stepWall(step_ms);
    assert.equal(await status(), 200, `after ${used_ms} ms`);
  }
  rig.clock.stepWall(step_ms);
  assert.equal(await status(), 401, 'too old');
  const other = await cookieOf(rig);
  rig.clock.stepWall(limits.session_idle_ms);
  assert.equal((await browse(rig, 'GET', '/v1/me', { cookie: other })).status, 401, 'rested');
});

given('health says that it serves, to anybody', async (rig) => {
  const { status, body } = await ask(rig, 'GET', '/healthz', { token: null });
  assert.deepEqual([status, body], [200, { status: 'ok' }]);
});
