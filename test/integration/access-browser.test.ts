/**
 * The sites of workloads in a real browser: how one is opened, and what the page of one workload
 * can do to another, to the dashboard, and to who owns them.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needs } from '../lib/parts.ts';
import { addTenant, addUser } from '../lib/rig.ts';
import { openSiteBrowser, type SiteBrowser } from '../lib/site-browser.ts';
import type { Notebook } from '../lib/site-rig.ts';

/** Runs a script's function in a page, and gives what it gives. */
function inPage<T = unknown>(page: Page, script: string, given: unknown = null): Promise<T> {
  return page.evaluate(`(${script})(${JSON.stringify(given)})`) as Promise<T>;
}

/** Asks a url in every way that a page has; says what came of each. */
const ask_everything = `async (url) => {
  const outcomes = [];
  for (const init of [
    {},
    { mode: 'no-cors' },
    { method: 'POST', mode: 'no-cors', body: 'x' },
    { method: 'DELETE' },
    { method: 'PUT', headers: { 'x-a': 'b' } },
  ]) {
    const asked = fetch(url, { credentials: 'include', ...init });
    outcomes.push(await asked.then((answer) => answer.type, () => 'refused'));
  }
  navigator.sendBeacon(url, 'x');
  for (const tag of ['img', 'script', 'iframe']) {
    const made = document.createElement(tag);
    made.src = url;
    const ended = new Promise((resolve) => {
      made.onload = () => resolve('loaded');
      made.onerror = () => resolve('failed');
    });
    document.body.append(made);
    outcomes.push(tag + ' ' + (await ended));
  }
  return outcomes;
}`;
const post_form = `(url) => {
  const form = document.createElement('form');
  Object.assign(form, { method: 'post', action: url, target: '_blank' });
  document.body.append(form);
  form.submit();
}`;
const open_socket = `(url) => new Promise((resolve) => {
  const socket = new WebSocket(url);
  socket.onopen = () => socket.send('hello');
  socket.onmessage = ({ data }) => resolve(String(data));
  socket.onerror = () => resolve('refused');
})`;
const await_close = `(url) => new Promise((resolve) => {
  new WebSocket(url).onclose = ({ code }) => resolve(code);
})`;
const toss_cookies = `(names) => {
  for (const name of names) {
    for (const domain of ['localhost', '.localhost']) {
      document.cookie = name + '=FAKE; Domain=' + domain + '; Path=/';
    }
    document.cookie = name + '=FAKE; Path=/lab';
  }
}`;
const read_it = `(url) => fetch(url, { credentials: 'include' })
  .then(() => 'read', () => 'refused')`;
const register_worker = `() => navigator.serviceWorker.register('/worker.js')
  .then(() => navigator.serviceWorker.ready)
  .then(() => null)`;

describe('sites in a browser', { ...needs('chromium'), timeout: 180_000 }, () => {
  const given = {} as SiteBrowser;
  before(async () => {
    Object.assign(given, await openSiteBrowser());
  });
  after(() => given.close?.());

  const tickets = async () => {
    const text = 'select hash from access_tickets';
    return (await given.site.rig.store.read((sql) => sql.all(text), {})).length;
  };

  test('the dashboard opens a notebook in a tab of its own, which knows nothing of it', async () => {
    const lab = await given.site.addNotebook();
    const context = await given.context();
    const dashboard = await context.newPage();
    await dashboard.goto(`${given.site.origin}/`);
    const [tab] = await Promise.all([
      context.waitForEvent('page'),
      dashboard.getByRole('link', { name: `Open ${lab.name}` }).click(),
    ]);
    await tab.waitForURL(`${lab.origin}/`);
    assert.match(await tab.content(), new RegExp(lab.id));
    const seen = await inPage(
      tab,
      `() => ({
        opener: window.opener === null,
        referrer: document.referrer,
        cookie: document.cookie,
        href: location.href,
        secure: window.isSecureContext,
      })`,
    );
    assert.deepEqual(seen, {
      ...{ opener: true, referrer: '', cookie: '', href: `${lab.origin}/`, secure: true },
    });
    const all = await context.cookies(lab.origin);
    assert.deepEqual(
      all.map(({ name, httpOnly, sameSite, domain, path }) => [
        name,
        httpOnly,
        sameSite,
        domain,
        path,
      ]),
      [[`einsora_access_${given.site.port}`, true, 'Lax', `w-${lab.id}.localhost`, '/']],
    );
    await tab.reload();
    assert.match(await tab.content(), new RegExp(lab.id));
    const before_back = await tickets();
    await tab.goBack().catch(() => null);
    assert.equal(await tickets(), before_back, 'going back opens nothing once more');
    await context.close();
  });

  test('sent to /open by another site, a person clicks first', async () => {
    const { site } = given;
    const [lab, evil] = [await site.addNotebook(), await site.addNotebook()];
    const context = await given.context();
    const page = await given.open(context, evil);
    const before_count = await tickets();
    await inPage(page, '(url) => location.assign(url)', `${site.origin}/open/${lab.id}`);
    await page.waitForURL(`${site.origin}/open/${lab.id}`);
    const button = page.getByRole('button', { name: 'Open', exact: true });
    await button.waitFor();
    assert.equal(await tickets(), before_count);
    await button.click();
    await page.waitForURL(`${lab.origin}/`);
    await context.close();
  });

  test('who is not signed in signs in, and is led back; no other address is followed', async () => {
    const { site } = given;
    const lab = await site.addNotebook();
    const context = await given.context(null);
    const page = await context.newPage();
    await page.goto(`${site.origin}/open/${lab.id}`);
    await page.waitForURL(`${site.origin}/sign-in`);
    const link = async () =>
      (await site.rig.apiDeps.proofs.makeSignInLink(site.rig.ids.user_id)).reveal();
    const next = `/open/${lab.id}`;
    // As a page of its own: a changed fragment alone would load nothing.
    await page.goto('about:blank');
    await page.goto(`${site.origin}/sign-in#t=${await link()}&next=${next}`);
    await page.waitForURL(`${lab.origin}/`);
    for (const bad of ['//evil.example', 'http://evil.example', '/open/../x', '/open/x']) {
      await page.goto('about:blank');
      await page.goto(`${site.origin}/sign-in#t=${await link()}&next=${encodeURIComponent(bad)}`);
      await page.waitForURL(`${site.origin}/`);
    }
    await context.close();
  });

  test('the page of a workload can ask neither another workload nor the dashboard for anything', async () => {
    const { site } = given;
    const [lab, evil] = [await site.addNotebook(), await site.addNotebook()];
    const context = await given.context();
    await given.open(context, lab);
    const page = await given.open(context, evil);
    const asked_before = given.asked(lab).length;
    for (const victim of [
      `${lab.origin}/x`,
      `${site.origin}/v1/me`,
      `${site.origin}/v1/workloads`,
    ]) {
      const told = await inPage<string[]>(page, ask_everything, victim);
      assert.equal(told.includes('cors') || told.includes('basic'), false, `${victim}: ${told}`);
      assert.equal(
        told.some((one) => /^(?:img|script) loaded/.test(one)),
        false,
        String(told),
      );
    }
    assert.equal(
      given.asked(lab).length,
      asked_before,
      given.asked(lab).slice(asked_before).join(),
    );
    await context.close();
  });

  test('a form of another workload reaches nothing, in whichever window', async () => {
    const { site } = given;
    const [lab, evil] = [await site.addNotebook(), await site.addNotebook()];
    const context = await given.context();
    await given.open(context, lab);
    const page = await given.open(context, evil);
    for (const victim of [
      `${lab.origin}/api/terminals`,
      `${site.origin}/v1/workloads/${lab.id}/stop`,
    ]) {
      const [landed] = await Promise.all([
        context.waitForEvent('page'),
        inPage(page, post_form, victim),
      ]);
      await landed.waitForURL(victim);
      assert.match(await landed.content(), /cross_site|access_needed|sign_in_required/);
      await landed.close();
    }
    const written = given.asked(lab).filter((one) => one.startsWith('POST'));
    assert.deepEqual(written, []);
    await context.close();
  });

  const socketTo = (page: Page, url: string) =>
    inPage<string>(page, open_socket, url.replace('http:', 'ws:'));

  test('a WebSocket opens from the site itself, and from nowhere else', async () => {
    const { site } = given;
    const [lab, evil] = [await site.addNotebook(), await site.addNotebook()];
    const context = await given.context();
    const own = await given.open(context, lab);
    assert.equal(await socketTo(own, `${lab.origin}/ws`), 'echo hello');
    const foreign = await given.open(context, evil);
    const asked_before = given.asked(lab).length;
    assert.equal(await socketTo(foreign, `${lab.origin}/ws`), 'refused');
    assert.equal(await socketTo(foreign, `${site.origin}/v1/workloads/${lab.id}/exec`), 'refused');
    const dashboard = await context.newPage();
    await dashboard.goto(`${site.origin}/sign-in`);
    assert.equal(await socketTo(dashboard, `${lab.origin}/ws`), 'refused');
    assert.equal(given.asked(lab).length, asked_before);
    await context.close();
  });

  test('cookies that a workload tosses reach nobody else, and lock nobody out', async () => {
    const { site } = given;
    const [lab, evil] = [await site.addNotebook(), await site.addNotebook()];
    const context = await given.context();
    const own = await given.open(context, lab);
    const page = await given.open(context, evil);
    const names = [`einsora_session_${site.port}`, `einsora_access_${site.port}`];
    await inPage(page, toss_cookies, names);
    const fakes = (await context.cookies([lab.origin, site.origin])).filter(
      ({ value }) => value === 'FAKE',
    );
    assert.deepEqual(fakes, []);
    await own.reload();
    assert.match(await own.content(), new RegExp(lab.id));
    await page.goto(`${evil.origin}/lab/tree`);
    assert.match(await page.content(), new RegExp(evil.id), 'its own cookie still counts');
    await context.close();
  });

  test('a name that was rebound to loopback, a nested name and a trailing dot get nowhere', async () => {
    const { site } = given;
    const lab = await site.addNotebook();
    const context = await given.context();
    await given.open(context, lab);
    const page = await context.newPage();
    const hosts = [`rebound.example:${site.port}`, `x.${lab.host}`, lab.host.replace(':', '.:')];
    for (const host of hosts) {
      const answer = await page.goto(`http://${host}/`);
      assert.equal(answer?.status(), 421, host);
    }
    await context.close();
  });

  test('no site can be framed by another, nor read what it opened', async () => {
    const { site } = given;
    const [lab, evil] = [await site.addNotebook(), await site.addNotebook()];
    const context = await given.context();
    await given.open(context, lab);
    const page = await given.open(context, evil);
    const [popup] = await Promise.all([
      context.waitForEvent('page'),
      inPage(page, '(url) => void (window.popup = window.open(url))', `${lab.origin}/`),
    ]);
    // It begins as an empty page of its opener's, and is cut off from it as the site answers.
    await popup.waitForURL(`${lab.origin}/**`);
    await popup.waitForLoadState();
    await page.waitForFunction('window.popup.closed', null, { timeout: 10_000 });
    assert.equal(await inPage(popup, '() => window.opener === null'), true);
    await context.close();
  });

  test('a service worker of a workload holds its own site alone, and still lets it be opened', async () => {
    const { site, pages } = given;
    const [lab, evil] = [await site.addNotebook(), await site.addNotebook()];
    const worker = `self.addEventListener('install', () => self.skipWaiting());
      self.addEventListener('activate', (event) => event.waitUntil(clients.claim()));
      self.addEventListener('fetch', (event) => {
        if (!event.request.url.includes('.einsora')) return;
        event.respondWith(fetch(event.request));
      });`;
    pages.set(`${evil.id}/worker.js`, worker);
    const context = await given.context();
    const page = await given.open(context, evil);
    await inPage(page, register_worker);
    await page.reload();
    assert.equal(await inPage(page, '() => navigator.serviceWorker.controller !== null'), true);
    await context.clearCookies({ domain: `w-${evil.id}.localhost` });
    const again = await given.open(context, evil);
    assert.match(await again.content(), new RegExp(evil.id));
    const other = await given.open(context, lab);
    assert.equal(await inPage(other, '() => navigator.serviceWorker.controller'), null);
    await context.close();
  });

  test('a tab that was left open over a stop and a start comes back by itself', async () => {
    const { site } = given;
    const lab = await site.addNotebook();
    const context = await given.context();
    const page = await given.open(context, lab);
    await site.move(lab, 'stopping');
    await page.reload();
    await page.getByText(`${lab.name} is stopping`).waitFor();
    await site.move(lab, 'stopped');
    await page.getByText(`${lab.name} is stopped`).waitFor();
    await site.move(lab, 'provisioning');
    await page.getByText(`${lab.name} is provisioning`).waitFor();
    await site.move(lab, 'running', 2);
    await page.getByText(lab.id).waitFor();
    assert.equal(page.url(), `${lab.origin}/`);
    assert.equal(site.dialled.at(-1), `${lab.id}.0.2 web`);
    await context.close();
  });

  test('/open waits for what does not run yet, and offers to start what was stopped', async () => {
    const { site } = given;
    const lab = await site.addNotebook();
    await site.move(lab, 'provisioning');
    const context = await given.context();
    const page = await context.newPage();
    await page.goto(`${site.origin}/open/${lab.id}`);
    await page.getByText(`${lab.name} is provisioning`).waitFor();
    await site.move(lab, 'stopped');
    await page.getByRole('button', { name: 'Start it' }).waitFor();
    await site.move(lab, 'running');
    await page.reload();
    await page.waitForURL(`${lab.origin}/`);
    await context.close();
  });

  test('signing out ends what is open, within a second', async () => {
    const { site } = given;
    const lab = await site.addNotebook();
    const context = await given.context();
    const page = await given.open(context, lab);
    const closed = inPage<number>(page, await_close, `${lab.origin.replace('http:', 'ws:')}/ws`);
    while ((given.sockets.get(lab.id) ?? []).length === 0) await page.waitForTimeout(20);
    const dashboard = await context.newPage();
    await dashboard.goto(`${site.origin}/`);
    const began = performance.now();
    await dashboard.getByRole('button', { name: 'Sign out' }).click();
    assert.equal(await closed, 1006);
    assert.ok(performance.now() - began < 1500, 'with the click and the way of the page');
    await page.reload();
    await page.getByText('This page opens from Einsora').waitFor();
    await context.close();
  });

  test('two tenants in one browser reach nothing of each other', async () => {
    const { site } = given;
    const { rig } = site;
    await addTenant(rig.store, 'other', 'other-tenant');
    const whose = { tenant_id: 'other-tenant', name: 'bob', role: 'member' } as const;
    const bob = await addUser(rig.store, rig.random, whose);
    const theirs: Notebook = await site.addNotebook({ ...whose, user_id: bob.user_id });
    const own = await site.addNotebook();
    const context = await given.context();
    await given.open(context, own);
    const page = await context.newPage();
    await page.goto(`${site.origin}/open/${theirs.id}`);
    await page.getByText('There is no workload').waitFor();
    // Bob signs in in the same browser: his cookie takes the place of ada's, her site stays hers.
    const { cookie } = await site.addSession(bob.user_id);
    const [name = '', value = ''] = cookie.split('=');
    await context.addCookies([{ name, value, url: site.origin, sameSite: 'Strict' }]);
    const evil = await given.open(context, theirs);
    const before_count = given.asked(own).length;
    const told = await inPage(evil, read_it, `${own.origin}/api/contents`);
    assert.equal(told, 'refused');
    assert.equal(await socketTo(evil, `${own.origin}/ws`), 'refused');
    assert.equal(given.asked(own).length, before_count);
    await page.goto(`${site.origin}/open/${own.id}`);
    await page.getByText('There is no workload').waitFor();
    await context.close();
  });
});
