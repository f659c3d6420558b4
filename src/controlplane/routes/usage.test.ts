/**
 * Usage over the API: who sees whose, in which window, page by page.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  endpointSpec,
  type Rig,
  select,
} from '../../../test/lib/rig.ts';
import { makeId } from '../../core/ids.ts';

const hour = 3600_000;
type Item = { key: string; name: string; metered_ms: number; held_ms: number; cpu_hours: number };

const inRig = (name: string, body: (rig: Rig) => Promise<void>) =>
  test(name, async () => {
    const rig = await createRig();
    try {
      await body(rig);
    } finally {
      await rig.close();
    }
  });

/** A run in the books, without having run. */
async function book(
  rig: Rig,
  who: { tenant_id?: string; user_id: string },
  hours: { from: number; to: number | null },
  number: number,
): Promise<void> {
  const { tenant_id, machine_id } = rig.ids;
  const began = rig.clock.now();
  const tenant = who.tenant_id ?? tenant_id;
  const id = makeId(number, rig.random.bytes(10));
  const write = (text: string, params: (string | number | null)[]) =>
    rig.store.transact('write', { text, params });
  await rig.store.transact('launchWorkload', {
    ...{ id, tenant_id: tenant, creator_id: who.user_id, name_is_free: false },
    ...{ spec: endpointSpec({ name: `name-${number}` }), now: began, idempotency: null },
    ...{ actor: 'user:ada', request_id: 'r' },
  });
  await write(
    `insert into runs (workload_id, replica, run_epoch, machine_id, driver, isolation,
       placed_class, wanted, observed, created_at)
     values ($1, 0, 1, $2, 'sim', 'weak', 'cpu-2c-4g', 'remove', 'absent', 0)`,
    [id, machine_id],
  );
  const end = hours.to === null ? null : began + hours.to * hour;
  for (const kind of ['metered', 'held']) {
    await write(
      `insert into ledger (id, workload_id, replica, run_epoch, kind, entry, sign, reason,
         tenant_id, user_id, machine_id, placed_class, gpu_count, cpu_millis, memory_bytes,
         started_at, started_steady, started_wall, ended_at)
       values ($1, $2, 0, 1, $3, 1, 1, 'measured', $4, $5, $6, 'cpu-2c-4g', 0, 2000, 4294967296,
         $7, $7, $7, $8)`,
      [`${id}.${kind}`, id, kind, tenant, who.user_id, machine_id, began + hours.from * hour, end],
    );
  }
}

const usage = async (rig: Rig, query: string, token = rig.token) => {
  const answer = await ask(rig, 'GET', `/v1/usage?${query}`, { token });
  assert.equal(answer.status, 200, answer.text);
  return answer.body as unknown as {
    items: Item[];
    total: Item;
    next_cursor: string | null;
    tenant: string;
  };
};

inRig('members see their own, tenant admins that of all, operators that of any', async (rig) => {
  const { tenant_id } = rig.ids;
  await addTenant(rig.store, 'other', 'other-tenant');
  const of = (name: string, role: 'member' | 'tenant-admin', tenant = tenant_id) =>
    addUser(rig.store, rig.random, { tenant_id: tenant, name, role });
  const [ann, bob, oz] = [
    await of('ann', 'tenant-admin'),
    await of('bob', 'member'),
    await of('oz', 'member', 'other-tenant'),
  ];
  await book(rig, ann, { from: 0, to: 1 }, 1);
  await book(rig, bob, { from: 0, to: 2 }, 2);
  await book(rig, { ...oz, tenant_id: 'other-tenant' }, { from: 0, to: 4 }, 3);
  await rig.clock.advance(10 * hour);
  const hours = async (token: string, more = '') =>
    (await usage(rig, `group_by=user${more}`, token)).items
      .map(({ name, metered_ms }) => `${name} ${metered_ms / hour}`)
      .sort();
  assert.deepEqual(await hours(bob.token), ['bob 2']);
  assert.deepEqual(await hours(ann.token), ['ann 1', 'bob 2']);
  assert.deepEqual(await hours(oz.token), ['oz 4']);
  assert.deepEqual(await hours(rig.token, '&tenant=other'), ['oz 4']);
  for (const tenant of ['other', 'other-tenant', 'none']) {
    const { status } = await ask(rig, 'GET', `/v1/usage?tenant=${tenant}`, ann);
    assert.equal(status, 404, 'another tenant looks like none');
  }
});

inRig('a window cuts what reaches into it, and days are those of UTC', async (rig) => {
  const { user_id } = rig.ids;
  await book(rig, { user_id }, { from: 0, to: 48 }, 1);
  const at = rig.clock.now();
  await rig.clock.advance(100 * hour);
  const { total } = await usage(rig, `from=${at + hour}&to=${at + 3 * hour}`);
  assert.deepEqual([total.metered_ms, total.cpu_hours], [2 * hour, 4]);
  const by_day = await usage(rig, `group_by=day&from=${at}&to=${at + 48 * hour}`);
  assert.equal(
    by_day.items.reduce((sum, item) => sum + item.metered_ms, 0),
    48 * hour,
  );
  assert.match(by_day.items[0]?.key ?? '', /^2027-\d{2}-\d{2}$/);
  const day = by_day.items[1]?.key ?? '';
  const one_day = await usage(rig, `from=${day}&to=${day}T12:00Z`);
  assert.equal(one_day.total.metered_ms, 12 * hour);
});

inRig('pages hold every group once, in order, with the total on each', async (rig) => {
  const { user_id } = rig.ids;
  for (let number = 1; number <= 7; number += 1) {
    await book(rig, { user_id }, { from: 0, to: number }, number);
  }
  await rig.clock.advance(10 * hour);
  const keys: string[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const more: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const page = await usage(rig, `group_by=workload&limit=3${more}`);
    assert.equal(page.total.metered_ms, 28 * hour);
    keys.push(...page.items.map(({ name }) => name));
    cursor = page.next_cursor;
  }
  assert.deepEqual(
    keys,
    [1, 2, 3, 4, 5, 6, 7].map((number) => `name-${number}`),
  );
});

inRig('an open interval counts as far as it is proven, held ones until now', async (rig) => {
  await book(rig, rig.ids, { from: 0, to: null }, 1);
  await rig.clock.advance(hour);
  const { total } = await usage(rig, '');
  assert.deepEqual([total.metered_ms, total.held_ms], [60_000, hour]);
  await rig.store.transact('write', {
    text: 'update runs set proven_steady = $1',
    params: [rig.clock.now() - 10_000],
  });
  assert.equal((await usage(rig, '')).total.metered_ms, hour);
});

inRig('more entries than a page are summed whole', async (rig) => {
  const [sample] = [await book(rig, rig.ids, { from: 0, to: 1 }, 1)];
  assert.equal(sample, undefined);
  await rig.store.transact('write', {
    text: `insert into ledger select w.id || '.' || n.number, l.workload_id, l.replica, l.run_epoch,
        l.kind, n.number + 1, l.sign, l.reason, l.tenant_id, l.user_id, l.machine_id,
        l.placed_class, l.gpu_count, l.cpu_millis, l.memory_bytes, l.started_at, l.started_steady,
        l.started_wall, l.ended_at, l.ended_steady, l.ended_by, l.closed_steady, l.weight_millis
      from ledger l join workloads w on w.id = l.workload_id,
        (with recursive n (number) as (select 1 union all select number + 1 from n
          where number < 1200) select number from n) n
      where l.kind = 'metered'`,
    params: [],
  });
  await rig.clock.advance(10 * hour);
  assert.equal((await usage(rig, '')).total.metered_ms, 1201 * hour);
  assert.equal((await select(rig.store, 'select id from ledger')).length, 1202);
});

inRig('what is no moment, no group or no page is refused', async (rig) => {
  const cases = [
    ...[
      'from=yesterday',
      'from=2027-02-30',
      'from=2027-13-01',
      'to=-5',
      'from=2027-01-02&to=2027-01-01',
    ],
    ...['group_by=price', 'limit=0', 'limit=201', 'cursor=%00', 'from=1970-01-01&to=2027-01-01'],
  ];
  for (const query of cases) {
    const { status, body } = await ask(rig, 'GET', `/v1/usage?${query}`);
    assert.deepEqual([query, status, body.error?.code], [query, 400, 'bad_request']);
  }
});
