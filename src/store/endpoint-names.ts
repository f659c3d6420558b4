/**
 * Which names of a tenant are an alias of one of its endpoints.
 */
import type { Query, Row, Sql } from './sql.ts';

/** The endpoint that a name is an alias of. */
export const findAlias: Query<
  { tenant_id: string; name: string },
  { workload_id: string } | undefined
> = (sql, { tenant_id, name }) =>
  sql.get<Row & { workload_id: string }>(
    'select workload_id from endpoint_aliases where tenant_id = $1 and name = $2',
    [tenant_id, name],
  );

/** A deleted endpoint's names are free again. */
export async function dropAliasesOf(sql: Sql, workload_id: string): Promise<void> {
  await sql.run('delete from endpoint_aliases where workload_id = $1', [workload_id]);
}
