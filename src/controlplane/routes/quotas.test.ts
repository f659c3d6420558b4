/**
 * Quotas over the API: who sets them, who sees them, and what a launch over one is answered.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  gib,
  type Rig,
  select,
} from '../../../test/lib/rig.ts';

const launch = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
const path = '/v1/tenants/local/quota';

const inRig = (name: string, body: (rig: Rig) => Promise<void>) =>
  test(name, async () => {
    const rig = await createRig();
    try {
      await body(rig);
    } finally {
      await rig.close();
    }
  });

const set = (rig: Rig, limits: object, more: object = {}) =>
  ask(rig, 'PUT', path, { body: { limits, ...more } });

inRig(
  'a launch over the quota is refused with what, limit, used, asked and what helps',
  async (rig) => {
    assert.equal((await set(rig, { memory_bytes: 3 * gib })).status, 200);
    assert.equal((await ask(rig, 'POST', '/v1/workloads', { body: launch })).status, 201);
    const { status, body } = await ask(rig, 'POST', '/v1/workloads', { body: launch });
    assert.equal(status, 409);
    assert.equal(body.error?.code, 'quota_exceeded');
    const { what, limit, used, asked } = body.error?.details ?? {};
    assert.deepEqual(
      { what, limit, used, asked },
      { what: 'memory_bytes', limit: 3 * gib, used: 2 * gib, asked: 2 * gib },
    );
    assert.equal(
      body.error?.message,
      'This would be over the quota of tenant local: memory is limited to 3 GiB, 2 GiB used and 2 GiB more asked for.',
    );
    assert.match(body.error?.fix ?? '', /einsora stop/);
    assert.equal((await select(rig.store, 'select id from workloads')).length, 1, 'none is queued');
  },
);

inRig('a plan says that a launch would be refused, and promises nothing', async (rig) => {
  const before = await ask(rig, 'POST', '/v1/plan', { body: launch });
  assert.equal(before.body.refused, null);
  await set(rig, { workloads: 0 });
  const after = await ask(rig, 'POST', '/v1/plan', { body: launch });
  assert.equal((after.body.refused as { code: string }).code, 'quota_exceeded');
});

inRig('a start over the quota is refused, and the workload stays stopped', async (rig) => {
  const body = { ...launch, name: 'one' };
  await ask(rig, 'POST', '/v1/workloads', { body });
  await ask(rig, 'POST', '/v1/workloads/one/stop');
  await set(rig, { workloads: 0 });
  const refused = await ask(rig, 'POST', '/v1/workloads/one/start');
  assert.equal(refused.status, 409);
  assert.equal(refused.body.error?.code, 'quota_exceeded');
  const shown = await ask(rig, 'GET', '/v1/workloads/one');
  assert.equal(shown.body.state, 'stopped');
});

inRig('the tenant is shown its limits and claims; an operator sees those of any', async (rig) => {
  const { tenant_id } = rig.ids;
  await addTenant(rig.store, 'other', 'other-tenant');
  const admin = await addUser(rig.store, rig.random, {
    tenant_id,
    name: 'ann',
    role: 'tenant-admin',
  });
  const foreign = await addUser(rig.store, rig.random, {
    ...{ tenant_id: 'other-tenant', name: 'oz', role: 'tenant-admin' },
  });
  await set(rig, { gpus: 2 }, { user: 'ann' });
  await ask(rig, 'POST', '/v1/workloads', { body: launch });
  const { body } = await ask(rig, 'GET', path, { token: admin.token });
  assert.deepEqual(
    body.items?.map(({ user, used }) => [user, (used as { workloads: number }).workloads]),
    [
      [null, 1],
      ['ann', 0],
    ],
  );
  for (const tenant of ['local', tenant_id, 'nobody']) {
    const { status } = await ask(rig, 'GET', `/v1/tenants/${tenant}/quota`, foreign);
    assert.equal(status, 404, 'another tenant looks like none');
  }
  assert.equal((await ask(rig, 'GET', '/v1/tenants/other/quota')).status, 200);
  const by_admin = { token: admin.token, body: { limits: { gpus: 9 } } };
  assert.equal((await ask(rig, 'PUT', path, by_admin)).status, 403);
});

inRig('a change is one action, and one that changes nothing is none', async (rig) => {
  for (let count = 0; count < 3; count += 1) await set(rig, { workloads: 5 });
  const rows = await select<{ target: string }>(
    rig.store,
    "select target from activity where route = 'setQuota' and outcome = 'done'",
  );
  assert.deepEqual(rows, [{ target: `tenant:${rig.ids.tenant_id}` }]);
});

inRig('what does not fit is refused by its name', async (rig) => {
  const cases: [object, number, string][] = [
    [{ limits: { workloads: -1 } }, 400, 'bad_request'],
    [{ limits: { workloads: 1.5 } }, 400, 'bad_request'],
    [{ limits: { gpus: 2 ** 60 } }, 400, 'bad_request'],
    [{ limits: { cores: 1 } }, 400, 'bad_request'],
    [{ limits: {}, user: 'nobody' }, 404, 'not_found'],
    [{ limits: {}, gpu_class: 'huge' }, 400, 'unknown_class'],
  ];
  for (const [body, status, code] of cases) {
    const answer = await ask(rig, 'PUT', path, { body });
    assert.deepEqual([answer.status, answer.body.error?.code], [status, code]);
  }
});
