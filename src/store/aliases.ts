/**
 * Aliases: further names that the gateway knows an endpoint by.
 *
 * Invariants: a name leads to one endpoint of its tenant: an alias is no name of a workload that is
 * there, and none is launched under an alias; with the endpoint its aliases are deleted.
 */
import { limits } from '../contract/limits.ts';
import { type Action, recordAction } from './activity.ts';
import { findAlias } from './endpoint-names.ts';
import type { WorkloadRow } from './events.ts';
import type { Query, Row, Sql } from './sql.ts';
import { lockNamed } from './workloads.ts';

export type ChangeAliasesArgs = {
  tenant_id: string;
  /** Id or name. */
  workload: string;
  add: string[];
  remove: string[];
  now: number;
  action?: Action;
};

export type ChangeAliasesResult =
  | { ok: true; row: WorkloadRow; aliases: string[] }
  | { ok: false; code: 'not_found' }
  | { ok: false; code: 'alias_taken'; alias: string }
  | { ok: false; code: 'aliases_full' };

/** What is an alias of it already may be added, and what is none removed: nothing changes then. */
export async function changeAliases(
  sql: Sql,
  args: ChangeAliasesArgs,
): Promise<ChangeAliasesResult> {
  const row = await lockNamed(sql, args);
  if (row === undefined || row.kind !== 'endpoint' || row.intent === 'deleted') {
    return { ok: false, code: 'not_found' };
  }
  const before = await aliasesOf(sql, row.id);
  const kept = before.filter((name) => !args.remove.includes(name));
  const added = args.add.filter((name) => !kept.includes(name));
  for (const alias of added) {
    if (await leadsElsewhere(sql, row, alias)) return { ok: false, code: 'alias_taken', alias };
  }
  const aliases = [...new Set([...kept, ...added])].sort();
  if (aliases.length > limits.aliases) return { ok: false, code: 'aliases_full' };
  for (const name of before) {
    if (aliases.includes(name)) continue;
    await sql.run('delete from endpoint_aliases where tenant_id = $1 and name = $2', [
      row.tenant_id,
      name,
    ]);
  }
  for (const name of aliases) {
    if (before.includes(name)) continue;
    await sql.run(
      `insert into endpoint_aliases (tenant_id, name, workload_id, created_at)
       values ($1, $2, $3, $4)`,
      [row.tenant_id, name, row.id, args.now],
    );
  }
  const details = { name: row.name, aliases: aliases.join(' ') };
  await recordAction(sql, args.action, { target: `workload:${row.id}`, details });
  return { ok: true, row, aliases };
}

/** It is the name of a workload that is there, or another's alias. */
async function leadsElsewhere(sql: Sql, row: WorkloadRow, name: string): Promise<boolean> {
  const { tenant_id } = row;
  const named = await sql.get(
    "select id from workloads where tenant_id = $1 and name = $2 and state <> 'deleted'",
    [tenant_id, name],
  );
  if (named !== undefined) return true;
  const other = await findAlias(sql, { tenant_id, name });
  return other !== undefined && other.workload_id !== row.id;
}

async function aliasesOf(sql: Sql, workload_id: string): Promise<string[]> {
  const rows = await sql.all<Row & { name: string }>(
    'select name from endpoint_aliases where workload_id = $1 order by name',
    [workload_id],
  );
  // By code points, as they are compared here.
  return rows.map(({ name }) => name).sort();
}

/** Of these endpoints; in the order of their names. */
export const listAliases: Query<
  { workload_ids: string[] },
  { workload_id: string; name: string }[]
> = (sql, { workload_ids }) =>
  workload_ids.length === 0
    ? Promise.resolve([])
    : sql.all<Row & { workload_id: string; name: string }>(
        `select workload_id, name from endpoint_aliases where workload_id ${sql.in(workload_ids, 1)}
         order by name`,
        workload_ids,
      );
