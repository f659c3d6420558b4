import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DesiredRun } from '../../contract/sync.ts';
import { silentLog } from '../../lib/log.ts';
import { Secret } from '../../lib/secret.ts';
import { createRunSecrets } from './run-secrets.ts';

const run = { workload_id: 'a'.repeat(26), replica: 0, run_epoch: 1 };
const facts = {
  begun: false,
  over: false,
  erase: false,
  trust: 'owner' as const,
  sharing: 'private' as const,
  driver: 'sim',
};
const notebook: DesiredRun = {
  ...{ ...run, action: 'run', ...facts, secrets: null },
  spec: {
    ...{ kind: 'notebook', name: 'lab', image_id: 'jupyter', accelerator: null, command: [] },
    env: { PLAIN: 'seen', TOKEN: { secret: 'mine' }, AGAIN: { secret: 'mine' } },
    ...{ cpu_millis: 1000, memory_bytes: 2 ** 30, disk_bytes: 0 },
  },
};
const asked: string[] = [];
const secretsFor = createRunSecrets({
  siteToken: ({ run_epoch }) => new Secret(`token-${run_epoch}`),
  gatewayKey: async ({ run_epoch }) => new Secret(`key-${run_epoch}`),
  async reveal(tenant_id, name) {
    asked.push(`${tenant_id}/${name}`);
    if (name === 'broken') throw new Error('it was changed');
    return tenant_id === 'ada' && name === 'mine' ? new Secret('value') : null;
  },
  log: silentLog,
});
const secretsOf = async (one: DesiredRun, tenant_id = 'ada') =>
  (await secretsFor({ run: one, tenant_id })).secrets;

test('a run is told its own token and the secrets of its own tenant', async () => {
  const expected = { site_token: 'token-1', gateway_key: 'key-1', values: { mine: 'value' } };
  assert.deepEqual(await secretsOf(notebook), expected);
  assert.deepEqual((await secretsOf(notebook, 'bob'))?.values, {});
  assert.ok(asked.every((one) => one === 'ada/mine' || one === 'bob/mine'));
});

test('a secret that cannot be opened is left out, and keeps nothing else back', async () => {
  const spec = { ...notebook.spec, env: { A: { secret: 'broken' }, B: { secret: 'mine' } } };
  const secrets = await secretsOf({ ...notebook, spec: spec as DesiredRun['spec'] });
  assert.deepEqual(secrets?.values, { mine: 'value' });
});

test('what is not to run is told nothing', async () => {
  assert.equal(await secretsOf({ ...notebook, action: 'park', spec: null }), null);
});

test('a sign-in goes along for the registry of the image, and for no other', async () => {
  const revealed: string[] = [];
  const of = createRunSecrets({
    siteToken: () => new Secret('token'),
    gatewayKey: async () => null,
    async reveal(tenant_id, name) {
      revealed.push(name);
      return tenant_id === 'ada' && name.startsWith('registry-') ? new Secret(`me:${name}`) : null;
    },
    log: silentLog,
  });
  const instance = (image_id: string, tenant_id: string) => {
    const spec = { ...notebook.spec, kind: 'instance', image_id, env: {} } as DesiredRun['spec'];
    return of({ run: { ...notebook, spec }, tenant_id }).then(({ secrets }) => secrets?.registries);
  };
  const own = { 'ghcr.io': 'me:registry-ghcr-io' };
  assert.deepEqual(await instance('ghcr.io/someone/image:1', 'ada'), own);
  assert.deepEqual(await instance('debian', 'ada'), { 'docker.io': 'me:registry-docker-io' });
  assert.equal(await instance('ghcr.io/someone/image:1', 'bob'), undefined);
  assert.equal(await instance('localhost/einsora/jupyter:1', 'ada'), undefined);
  assert.deepEqual([...new Set(revealed)].sort(), ['registry-docker-io', 'registry-ghcr-io']);
});
