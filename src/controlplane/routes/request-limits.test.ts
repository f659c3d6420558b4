/**
 * Limits on requests over the API: who sets and sees them, and that the log tells who did.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addUser, ask, createRig, type Rig, select } from '../../../test/lib/rig.ts';

const launch = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g', name: 'chat' };

const inRig = (name: string, body: (rig: Rig) => Promise<void>) =>
  test(name, async () => {
    const rig = await createRig();
    try {
      assert.equal((await ask(rig, 'POST', '/v1/workloads', { body: launch })).status, 201);
      await body(rig);
    } finally {
      await rig.close();
    }
  });

inRig('who administers nobody sees models and themselves, and sets models alone', async (rig) => {
  const { tenant_id } = rig.ids;
  const member = { tenant_id, name: 'zoe', role: 'member' } as const;
  const { token } = await addUser(rig.store, rig.random, member);
  const put = (path: string, body: object, as?: string) =>
    ask(rig, 'PUT', path, { body, ...(as === undefined ? {} : { token: as }) });
  assert.equal((await put('/v1/users/op/limits', { rpm: 9 })).status, 200);
  assert.equal((await put('/v1/users/zoe/limits', { rpm: 8 })).status, 200);
  assert.equal((await put('/v1/users/zoe/limits', { rpm: 7 }, token)).status, 403);
  const set = await put('/v1/workloads/chat/limits', { concurrency: 2 }, token);
  assert.deepEqual(set.body, {
    ...{ kind: 'model', name: 'chat', limits: { rpm: null, tpm: null, concurrency: 2 } },
    use: { requests: 0, tokens: 0, concurrency: 0 },
  });
  const seen = async (as?: string) => {
    const more = as === undefined ? {} : { token: as };
    const { items = [] } = (await ask(rig, 'GET', '/v1/request-limits', more)).body;
    return items.map(({ name }) => name);
  };
  assert.deepEqual(await seen(), ['op', 'zoe', 'chat']);
  assert.deepEqual(await seen(token), ['zoe', 'chat']);
});

inRig('a limit below one, of an instance, or with an odd field is refused', async (rig) => {
  const put = async (path: string, body: object) => (await ask(rig, 'PUT', path, { body })).status;
  assert.equal(await put('/v1/users/op/limits', { rpm: 0 }), 400);
  assert.equal(await put('/v1/users/op/limits', { rpm: 1.5 }), 400);
  assert.equal(await put('/v1/users/op/limits', { rps: 1 }), 400);
  assert.equal(await put('/v1/workloads/none/limits', { rpm: 1 }), 404);
});

inRig('the activity log says who limited what', async (rig) => {
  await ask(rig, 'PUT', '/v1/workloads/chat/limits', { body: { rpm: 5 } });
  await ask(rig, 'PUT', '/v1/workloads/chat/limits', { body: { rpm: 5 } });
  const text = `select details from activity where route = 'setModelLimits' and outcome = 'done'`;
  const rows = await select<{ details: string }>(rig.store, text);
  const found = rows.map(({ details }) => JSON.parse(details)).filter(({ rpm }) => rpm === 5);
  assert.equal(found.length, 1, 'what changes nothing is no action');
  assert.equal(found[0]?.name, 'chat');
});
