/**
 * A folder of the first version, with something running in it: nothing that it uses is lost.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { LedgerRow } from '../../src/store/ledger.ts';
import { migrate } from '../../src/store/migrate.ts';
import { migrations } from '../../src/store/migrations/index.ts';
import { openFileConnection, openMemoryConnection } from '../../src/store/sqlite.ts';
import { cleanUp, startProgram, temporaryFolder, until } from '../lib/program.ts';

const columns = `id, tenant_id, creator_id, name, kind, spec, state, intent, park_cause, details,
  revision, run_epoch, event_number, event_at, attempts, not_before, created_at, state_since`;

test('what runs is measured from when it began, and claims what it holds', () => {
  const connection = openMemoryConnection();
  migrate(connection, migrations.slice(0, 1), { now: 1 });
  const workload = (
    id: string,
    state: string,
  ) => `insert into workloads (${columns}) values ('${id}',
    't', 'u', '${id}', 'endpoint', '{}', '${state}', 'running', 'none', '{}', 1, 1, 1, 1, 0, 0, 1, 1);`;
  const run = (id: string, ready_at: string, ended_at: string) => `insert into runs (workload_id,
      replica, run_epoch, machine_id, driver, isolation, placed_class, wanted, observed, ready_at,
      ended_at, created_at)
    values ('${id}', 0, 1, 'm', 'sim', 'weak', 'cpu-1c-2g', 'run', 'present', ${ready_at},
      ${ended_at}, 100);
    insert into holds values ('${id}', 0, 1, 'm', '', 1000, 2048, 0, 100, ${ended_at});`;
  connection.exec(`
    insert into tenants values ('t', 'local', 'local', 1);
    insert into users values ('u', 't', 'ada', 'operator', 1, null);
    insert into machines (id, tenant_id, name, region, sharing, agent_epoch, generation,
      cpu_millis, memory_bytes, disk_bytes, created_at)
    values ('m', 't', 'desk', 'local', 'private', 1, 1, 8000, 8192, 0, 1);
    ${workload('runs', 'running')} ${run('runs', '150', 'null')}
    ${workload('begins', 'provisioning')} ${run('begins', 'null', 'null')}
    ${workload('is-over', 'failed')} ${run('is-over', '150', '170')}
    ${workload('waits', 'queued')}`);
  migrate(connection, migrations, { now: 200 });
  const rows = [
    ...connection.prepare('select * from ledger order by id').iterate(),
  ] as unknown as LedgerRow[];
  assert.deepEqual(
    rows.map((row) => [row.id, Number(row.started_at), Number(row.cpu_millis), row.ended_at]),
    [
      ['begins.0.1.held.1', 100, 1000, null],
      ['runs.0.1.held.1', 100, 1000, null],
      ['runs.0.1.metered.1', 150, 1000, null],
    ],
  );
  const claims = [
    ...connection.prepare('select id, memory_bytes from workloads order by id').iterate(),
  ] as { id: string; memory_bytes: bigint }[];
  assert.deepEqual(
    claims.map(({ id, memory_bytes }) => [id, Number(memory_bytes)]),
    [
      ['begins', 2048],
      ['is-over', 2048],
      ['runs', 2048],
      ['waits', 0],
    ],
  );
  connection.close();
});

test('an upgrade is said, with where the store is as it was before', async () => {
  const data_dir = temporaryFolder();
  const connection = openFileConnection(join(data_dir, 'einsora.db'));
  migrate(connection, migrations.slice(0, 1), { now: 1 });
  connection.close();
  const program = await startProgram({ data_dir, until_ready: false });
  try {
    const copy = join(data_dir, 'einsora.db.before-2');
    // It serves before all that it has to say is printed.
    const line = `upgraded  the store; as it was before: ${copy}`;
    await until(() => program.said().includes(line), 10_000, program.said);
    assert.ok(existsSync(copy));
  } finally {
    await cleanUp(data_dir, program);
  }
});
