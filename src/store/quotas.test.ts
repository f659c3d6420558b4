/**
 * Quotas: of launches at once only those that fit are accepted, and a claim is there until its
 * workload is confirmed gone.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { beginTale, type Tale } from '../../test/lib/ledger-tale.ts';
import {
  addTenant,
  addUser,
  endpointSpec,
  gib,
  openTestStore,
  storeKinds,
} from '../../test/lib/rig.ts';
import { makeId } from '../core/ids.ts';
import type { QuotaLimits } from '../core/quota.ts';
import type { WorkloadSpec } from '../core/workload.ts';
import { listQuotas } from './quota-limits.ts';
import { foreseeRefusal } from './quotas.ts';

for (const kind of storeKinds) {
  describe(`quotas on a store in ${kind}`, () => {
    const inTale = (name: string, body: (tale: Tale) => Promise<void>) =>
      test(name, async () => {
        const { store, close } = await openTestStore(kind);
        try {
          await body(await beginTale(store));
        } finally {
          await close();
        }
      });

    inTale('sixty-four launches at once under a quota of one: one is accepted', async (tale) => {
      await setQuota(tale, { workloads: 1 });
      const done = await Promise.all(Array.from({ length: 64 }, () => launch(tale)));
      assert.equal(done.filter((code) => code === 'ok').length, 1);
      assert.equal(done.filter((code) => code === 'quota_exceeded').length, 63);
    });

    inTale(
      'without a quota nothing is refused, and one of another tenant binds nobody',
      async (t) => {
        await addTenant(t.store, 'other', 'other-tenant');
        await setQuota(t, { workloads: 0 }, { tenant_id: 'other-tenant' });
        assert.equal(await launch(t), 'ok');
      },
    );

    inTale('each amount has its limit, and may reach it exactly', async (tale) => {
      const limits: [Partial<QuotaLimits>, Partial<WorkloadSpec>][] = [
        [{ cpu_millis: 2000 }, { cpu_millis: 1000 }],
        [{ memory_bytes: 4 * gib }, { memory_bytes: 2 * gib }],
        [{ disk_bytes: 20 * gib }, { disk_bytes: 10 * gib }],
        [{ gpus: 2 }, { gpu_count: 1 }],
      ];
      for (const [limit, spec] of limits) {
        await setQuota(tale, limit);
        const codes = [
          await launch(tale, spec),
          await launch(tale, spec),
          await launch(tale, spec),
        ];
        assert.deepEqual(codes, ['ok', 'ok', 'quota_exceeded'], JSON.stringify(limit));
        assert.equal(await launch(tale, { ...spec, ...none(limit) }), 'ok', 'what asks none of it');
        await setQuota(tale, {
          cpu_millis: null,
          memory_bytes: null,
          disk_bytes: null,
          gpus: null,
        });
        await removeAll(tale);
      }
    });

    inTale('a claim counts until the workload is confirmed stopped', async (tale) => {
      await setQuota(tale, { workloads: 1 });
      await launch(tale);
      await tale.place();
      await tale.report('ready');
      await tale.stop();
      assert.equal(await launch(tale), 'quota_exceeded', 'a wish frees nothing');
      await tale.report('unknown');
      assert.equal(await launch(tale), 'quota_exceeded');
      await tale.report('parked');
      assert.equal(await launch(tale), 'ok');
    });

    inTale(
      'a start claims again, and is refused over the quota with nothing changed',
      async (t) => {
        await setQuota(t, { workloads: 1 });
        await launch(t, { name: 'first' });
        assert.equal(await change(t, 'stopWorkload', 'first'), 'stopped');
        assert.equal(await launch(t, { name: 'second' }), 'ok');
        assert.equal(await change(t, 'startWorkload', 'first'), 'quota_exceeded');
        assert.equal((await t.workload()).state, 'stopped');
        assert.equal(await change(t, 'stopWorkload', 'second'), 'stopped');
        assert.equal(await change(t, 'startWorkload', 'first'), 'pending');
        assert.equal(await change(t, 'startWorkload', 'first'), 'pending', 'itself is no rival');
      },
    );

    inTale('starts and launches that race end within the quota', async (tale) => {
      await setQuota(tale, { workloads: 3 });
      for (const name of ['a', 'b', 'c']) {
        await launch(tale, { name });
        await change(tale, 'stopWorkload', name);
      }
      const racers = ['a', 'b', 'c'].flatMap((name) => [
        change(tale, 'startWorkload', name),
        launch(tale),
        change(tale, 'startWorkload', name),
        launch(tale),
      ]);
      const done = await Promise.all(racers);
      assert.equal((await claims(tale)).workloads, 3);
      assert.ok(done.includes('quota_exceeded'));
    });

    inTale('a start while stopping keeps the claim that it has', async (tale) => {
      await setQuota(tale, { workloads: 1 });
      await launch(tale);
      await tale.place();
      await tale.report('ready');
      await tale.stop();
      await tale.start();
      await tale.report('parked');
      assert.equal((await tale.workload()).state, 'pending');
      assert.equal((await claims(tale)).workloads, 1);
    });

    inTale('a user may have a limit of their own, and a class', async (tale) => {
      const { tenant_id } = tale.ids;
      const bob = await addUser(tale.store, tale.random, {
        tenant_id,
        name: 'bob',
        role: 'member',
      });
      await setQuota(tale, { workloads: 1 }, { user: 'bob' });
      await setQuota(tale, { workloads: 0 }, { gpu_class: 'cpu-8c-32g' });
      const by_bob = { creator_id: bob.user_id };
      assert.equal(await launch(tale, {}, by_bob), 'ok');
      assert.equal(await launch(tale, {}, by_bob), 'quota_exceeded');
      assert.equal(await launch(tale), 'ok', 'others are not bound by it');
      assert.equal(await launch(tale, { gpu_class: 'cpu-8c-32g' }), 'quota_exceeded');
    });

    inTale(
      'a repeat of an accepted launch is accepted, whatever the quota says now',
      async (tale) => {
        await setQuota(tale, { workloads: 1 });
        const idempotency = { principal: 'ada', key: 'k', request_hash: 'h' };
        assert.equal(await launch(tale, {}, { idempotency }), 'ok');
        assert.equal(await launch(tale, {}, { idempotency }), 'ok');
        await setQuota(tale, { workloads: 0 });
        assert.equal(await launch(tale, {}, { idempotency }), 'ok');
        assert.equal((await claims(tale)).workloads, 1);
      },
    );

    inTale(
      'what is not named stays, null lifts, and a limit stops nothing that runs',
      async (t) => {
        await launch(t);
        await setQuota(t, { workloads: 0, cpu_millis: 4000 });
        await setQuota(t, { workloads: null });
        const [whole] = await t.store.read(listQuotas, t.ids);
        assert.equal(whole?.limits.workloads, null);
        assert.equal(whole?.limits.cpu_millis, 4000);
        assert.deepEqual(whole?.used, { ...(await claims(t)), workloads: 1 });
        assert.equal((await t.workload()).state, 'pending');
      },
    );

    inTale(
      'nobody of another tenant is found, and a plan foresees what would come',
      async (tale) => {
        assert.equal(await setQuota(tale, { workloads: 1 }, { user: 'mallory' }), 'not_found');
        await setQuota(tale, { memory_bytes: 3 * gib });
        await launch(tale);
        const { tenant_id, user_id } = tale.ids;
        const ask = { tenant_id, creator_id: user_id, gpu_class: '', gpu_count: 0 };
        const more = { ...ask, cpu_millis: 1000, memory_bytes: 2 * gib, disk_bytes: 0 };
        const foreseen = await tale.store.read(foreseeRefusal, more);
        assert.deepEqual(foreseen, {
          ...{ what: 'memory_bytes', limit: 3 * gib, used: 2 * gib, asked: 2 * gib },
          whose: 'tenant local',
          said: 'memory is limited to 3 GiB, 2 GiB used and 2 GiB more asked for',
        });
        assert.equal(await tale.store.read(foreseeRefusal, { ...more, memory_bytes: gib }), null);
      },
    );
  });
}

async function setQuota(
  { store, clock, ids }: Tale,
  limits: Partial<QuotaLimits>,
  whose: { tenant_id?: string; user?: string; gpu_class?: string } = {},
): Promise<string> {
  const scope = { tenant_id: ids.tenant_id, user: null, gpu_class: null, ...whose };
  const done = await store.transact('setQuota', { ...scope, limits, now: clock.now() });
  return done.ok ? 'ok' : done.code;
}

async function launch(
  { store, clock, random, ids, cause }: Tale,
  spec: Partial<WorkloadSpec> = {},
  more: {
    creator_id?: string;
    idempotency?: { principal: string; key: string; request_hash: string };
  } = {},
): Promise<string> {
  const done = await store.transact('launchWorkload', {
    id: makeId(clock.now(), random.bytes(10)),
    ...{ tenant_id: ids.tenant_id, creator_id: ids.user_id, spec: endpointSpec(spec) },
    ...{ name_is_free: spec.name === undefined, ...cause(), idempotency: null, ...more },
  });
  if (done.outcome !== 'done') return done.outcome;
  return done.result.ok ? 'ok' : done.result.code;
}

async function change(
  { store, ids, cause }: Tale,
  name: 'startWorkload' | 'stopWorkload' | 'deleteWorkload',
  workload: string,
): Promise<string> {
  const args = { tenant_id: ids.tenant_id, workload, ...cause(), idempotency: null };
  const done = await store.transact(name, args);
  if (done.outcome !== 'done') return done.outcome;
  return done.result.ok ? done.result.row.state : done.result.code;
}

async function claims({ store, ids }: Tale) {
  const [whole] = await store.read(listQuotas, ids);
  assert.ok(whole);
  return whole.used;
}

async function removeAll(tale: Tale): Promise<void> {
  while ((await claims(tale)).workloads > 0) {
    const rows = await tale.store.read(
      (sql) => sql.all<{ id: string }>("select id from workloads where state <> 'deleted'"),
      {},
    );
    for (const { id } of rows) await change(tale, 'deleteWorkload', id);
  }
}

/** The same amounts with what has a limit at none. */
function none(limit: Partial<QuotaLimits>): Partial<WorkloadSpec> {
  const [name] = Object.keys(limit);
  return name === 'gpus' ? { gpu_count: 0 } : { [name ?? '']: 0 };
}
