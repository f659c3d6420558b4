/**
 * A site whose workload was stopped for being idle: who looks for it wakes it.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createSiteRig, raw, type SiteRig } from '../../test/lib/site-rig.ts';

let site: SiteRig;
const woken: string[] = [];
before(async () => {
  site = await createSiteRig({
    wake: async (workload_id) => void woken.push(workload_id),
  });
});
after(() => site.close());

const navigation = {
  'sec-fetch-mode': 'navigate',
  'sec-fetch-dest': 'document',
  'sec-fetch-site': 'none',
  accept: 'text/html',
};

test('a visitor who opens it wakes it; what a page asks by itself does not', async () => {
  const lab = await site.addNotebook();
  const cookie = await site.open(lab);
  const visit = (headers: Record<string, string>, path = '/lab') =>
    raw(site.port, [
      `GET ${path} HTTP/1.1`,
      ...Object.entries({ host: lab.host, ...headers }).map((pair) => pair.join(': ')),
    ]);
  await site.move(lab, 'stopped');
  const background = await visit({
    cookie,
    'sec-fetch-mode': 'cors',
    'sec-fetch-site': 'same-origin',
  });
  const state = await visit({ cookie, ...navigation }, '/.einsora/state');
  const stranger = await visit(navigation);
  assert.deepEqual([background.status, state.status, stranger.status], [503, 200, 401]);
  assert.deepEqual(woken, []);
  assert.equal((await visit({ cookie, ...navigation })).status, 503);
  assert.deepEqual(woken, [lab.id]);
  await site.move(lab, 'provisioning');
  await visit({ cookie, ...navigation });
  assert.deepEqual(woken, [lab.id], 'what comes by itself needs no waking');
});
