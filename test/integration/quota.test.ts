/**
 * A crowd at the door of a quota, over HTTP, on each store.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Listening, listen } from '../../src/controlplane/server.ts';
import type { Gateway } from '../../src/gateway/gateway.ts';
import { createRig, type Rig, select, storeKinds } from '../lib/rig.ts';

const crowd = 64;
const gateway: Gateway = {
  handle: async (_request, response) => void response.end(),
  close: async () => {},
};
const asked = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };

type Door = { rig: Rig; call(method: string, path: string, body?: unknown): Promise<Answer> };
type Answer = { status: number; body: { error?: { code: string }; name?: string } };

for (const kind of storeKinds) {
  describe(`over HTTP, on a store in ${kind}`, () => {
    const atDoor = (name: string, body: (door: Door) => Promise<void>) =>
      test(name, async () => {
        const rig = await createRig({ kind });
        let listening: Listening | null = null;
        try {
          listening = await listen(0, { ...rig, gateway });
          const base = `http://localhost:${listening.port}`;
          await body({
            rig,
            async call(method, path, sent) {
              const response = await fetch(base + path, {
                method,
                headers: {
                  authorization: `Bearer ${rig.token}`,
                  'content-type': 'application/json',
                },
                ...(sent === undefined ? {} : { body: JSON.stringify(sent) }),
              });
              return { status: response.status, body: (await response.json()) as Answer['body'] };
            },
          });
        } finally {
          await listening?.close();
          await rig.close();
        }
      });

    atDoor(
      '64 launches at once under a quota of one: one 201 and 63 x 409',
      async ({ rig, call }) => {
        await call('PUT', '/v1/tenants/local/quota', { limits: { workloads: 1 } });
        const answers = await Promise.all(
          Array.from({ length: crowd }, () => call('POST', '/v1/workloads', asked)),
        );
        const count = (status: number) => answers.filter((one) => one.status === status).length;
        assert.deepEqual([count(201), count(409)], [1, crowd - 1]);
        for (const { body } of answers.filter(({ status }) => status === 409)) {
          assert.equal(body.error?.code, 'quota_exceeded');
        }
        assert.equal((await select(rig.store, 'select id from workloads')).length, 1);
      },
    );

    atDoor('starts and launches that race for two places get two', async ({ rig, call }) => {
      await call('PUT', '/v1/tenants/local/quota', { limits: { workloads: 2 } });
      for (const name of ['a', 'b']) await call('POST', '/v1/workloads', { ...asked, name });
      for (const name of ['a', 'b']) await call('POST', `/v1/workloads/${name}/stop`);
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => [
          call('POST', '/v1/workloads/a/start'),
          call('POST', '/v1/workloads', asked),
          call('POST', '/v1/workloads/b/start'),
        ]).flat(),
      );
      for (const { status, body } of answers) {
        assert.ok([201, 202, 409].includes(status), `${status} ${JSON.stringify(body)}`);
      }
      const claiming = await select(rig.store, "select id from workloads where state <> 'stopped'");
      assert.equal(claiming.length, 2);
    });
  });
}
