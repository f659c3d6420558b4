/**
 * The export of a workload: complete, the same bytes twice, and without a secret.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestRecord } from '../../../test/lib/request-records.ts';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  gib,
  type Rig,
  select,
} from '../../../test/lib/rig.ts';
import { workloadExportSchema } from '../../contract/export.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { rowOfRecord } from '../../gateway/records/rows.ts';
import { exportTables, not_exported } from '../../store/export.ts';

const inRig = (name: string, body: (rig: Rig) => Promise<void>) =>
  test(name, async () => {
    const rig = await createRig();
    try {
      await body(rig);
    } finally {
      await rig.close();
    }
  });

type Exported = Record<string, Record<string, unknown>[]> & {
  workload: Record<string, unknown>;
  usage: Record<string, number>;
  left_out: Record<string, number>;
  redactions: { pointer: string; rule: string }[];
};

async function exported(rig: Rig, name = 'chat'): Promise<{ text: string; body: Exported }> {
  const { status, text, body } = await ask(rig, 'GET', `/v1/workloads/${name}/export`);
  assert.equal(status, 200, text);
  return { text, body: body as unknown as Exported };
}

/** An endpoint that ran for an hour, with a key, and ended with a secret in its last words. */
async function live(rig: Rig): Promise<string> {
  const { machine_id } = rig.ids;
  const { body } = await ask(rig, 'POST', '/v1/workloads', {
    body: { kind: 'endpoint', model: 'smollm2-135m', name: 'chat', gpu_class: 'cpu-1c-2g' },
  });
  const { body: key } = await ask(rig, 'POST', '/v1/workloads/chat/keys', { body: {} });
  assert.ok(key.key);
  const id = String(body.id);
  await rig.store.transact('write', {
    text: 'update machines set cpu_millis = 8000, memory_bytes = $1, disk_bytes = $1',
    params: [64 * gib],
  });
  const cause = () => ({
    ...{ now: rig.clock.now(), mono: rig.clock.monotonic() },
    ...{ actor: 'machine:desk', request_id: null },
  });
  await rig.store.transact('placeWorkload', {
    ...{ ...cause(), workload_id: id, revision: 1 },
    placement: {
      ...{ machine_id, machine_name: 'desk', driver: 'sim', isolation: 'weak' },
      placed_class: 'cpu-1c-2g',
    },
  });
  const report = (state: 'ready' | 'ended', log_tail: string | null) => {
    const facts = { stages: [], exit: null, reason: null, details: {}, log_tail };
    const observed = [{ workload_id: id, replica: 0, run_epoch: 1, state, ...facts }];
    const heard = { mono: rig.clock.monotonic(), runs: [`${id}.0.1`] };
    const machine = { machine_id, machine_name: 'desk', heard };
    return rig.store.transact('applyReport', { ...cause(), ...machine, observed });
  };
  await report('ready', null);
  for (const text of [
    `insert into run_samples (workload_id, replica, run_epoch, at, sample_count)
     values ($1, 0, 1, 300000, 30)`,
    'insert into workload_uses (workload_id, used_at, run_epoch, idle_ms) values ($1, 7, 1, 0)',
    `insert into replicas (workload_id, replica, state, attempts, not_before, details, since,
       revision) values ($1, 0, 'placed', 0, 0, '{}', 1, 1)`,
    `insert into endpoint_guests (workload_id, tenant_id, created_at)
     select id, tenant_id, 1 from workloads where id = $1`,
    `insert into endpoint_aliases (tenant_id, name, workload_id, created_at)
     select tenant_id, 'also', id, 1 from workloads where id = $1`,
    `insert into endpoint_key_models (key_id, workload_id)
     select id, workload_id from endpoint_keys where workload_id = $1`,
  ]) {
    await rig.store.transact('write', { text, params: [id] });
  }
  const request = requestRecord({ workload_id: id, tenant_id: rig.ids.tenant_id });
  const recorded = { rows: [rowOfRecord(request)], lost: 0, now: rig.clock.now() };
  await rig.store.transact('recordRequests', recorded);
  await rig.clock.advance(3600_000);
  await report('ended', 'loading https://ada:canary1@hub/x?sig=canary2\nPASSWORD=canary3\nbye');
  return String(key.key);
}

inRig('everything is there: every table with a workload, and every column of it', async (rig) => {
  await live(rig);
  const { body } = await exported(rig);
  const tables = await select<{ name: string }>(
    rig.store,
    `select m.name from sqlite_schema m join pragma_table_info(m.name) c
     where m.type = 'table' and c.name = 'workload_id' order by m.name`,
  );
  const covered = Object.values(exportTables).map(({ table }): string => table);
  assert.deepEqual(
    [...covered, ...not_exported].sort(),
    tables.map(({ name }) => name),
  );
  const tablesOf = { workload: { table: 'workloads' }, ...exportTables };
  for (const [section, { table }] of Object.entries(tablesOf)) {
    const rows = section === 'workload' ? [body.workload] : (body[section] ?? []);
    const columns = await select<{ name: string }>(
      rig.store,
      `select name from pragma_table_info('${table}') order by name`,
    );
    assert.ok(rows.length > 0, `${section} has rows`);
    const names = Object.keys(rows[0] ?? {}).sort();
    assert.deepEqual(names, columns.map(({ name }) => name).sort(), section);
    const all = await select(rig.store, `select * from ${table}`);
    assert.equal(rows.length, all.length, section);
  }
  assert.deepEqual(body.activity?.map(({ route }) => route).sort(), ['createKey', 'launch']);
  assert.deepEqual(body.usage, { metered_ms: 3600_000, held_ms: 3600_000, open: 0 });
  assert.deepEqual(body.left_out, {});
});

inRig(
  'the same record gives the same bytes, in canonical JSON, of the documented shape',
  async (rig) => {
    await live(rig);
    const first = await exported(rig);
    // A look at it, as the activity log notes it later.
    await rig.store.transact('write', {
      text: `insert into activity (id, tenant_id, at, actor, via, request_id, route, target,
          outcome, details)
        select 'look', tenant_id, at, actor, via, request_id, 'showWorkload', target, outcome, '{}'
        from activity where route = 'launch'`,
      params: [],
    });
    await rig.clock.advance(86_400_000);
    const second = await exported(rig);
    assert.equal(second.text, first.text);
    assert.equal(canonicalJson(JSON.parse(first.text)), first.text);
    workloadExportSchema.parse(JSON.parse(first.text));
  },
);

inRig('no secret is in it, and each place where one was is listed with its rule', async (rig) => {
  const key = await live(rig);
  const { text, body } = await exported(rig);
  for (const secret of [key, 'canary1', 'canary2', 'canary3']) assert.ok(!text.includes(secret));
  const [stored] = await select<{ hash: string }>(rig.store, 'select hash from endpoint_keys');
  assert.ok(!text.includes(stored?.hash ?? ''));
  assert.ok(text.includes('bye'), 'what is no secret is there');
  const rules = body.redactions.map(({ pointer, rule }) => {
    const value = pointer
      .split('/')
      .slice(1)
      .reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], body);
    assert.match(String(value), /REDACTED/, pointer);
    return `${pointer.replace(/\d+/, 'N')} ${rule}`;
  });
  assert.deepEqual(rules.sort(), [
    '/events/N/details/log_tail text.assignment',
    '/events/N/details/log_tail uri.query',
    '/events/N/details/log_tail uri.userinfo',
    '/keys/N/hash field.hash',
  ]);
});

inRig("another tenant's workload looks like none", async (rig) => {
  await live(rig);
  await addTenant(rig.store, 'other', 'other-tenant');
  const oz = await addUser(rig.store, rig.random, {
    ...{ tenant_id: 'other-tenant', name: 'oz', role: 'operator' },
  });
  const { status, body } = await ask(rig, 'GET', '/v1/workloads/chat/export', oz);
  assert.deepEqual([status, body.error?.code], [404, 'not_found']);
});

inRig(
  'what is too large for one file is counted, and its redactions are not listed',
  async (rig) => {
    await live(rig);
    const text = JSON.stringify({ log_tail: `PASSWORD=canary4 ${'x'.repeat(4 * 2 ** 20)}` });
    await rig.store.transact('write', {
      text: 'update workload_events set details = $1 where number > 1',
      params: [text],
    });
    const { body } = await exported(rig);
    const all = await select(rig.store, 'select number from workload_events');
    assert.equal(body.events?.length, 2);
    assert.deepEqual(body.left_out, { events: all.length - 2 });
    const listed = body.redactions.filter(({ pointer }) => pointer.startsWith('/events'));
    assert.deepEqual(
      listed.map(({ pointer }) => pointer),
      ['/events/1/details/log_tail'],
    );
  },
);
