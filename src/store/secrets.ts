/**
 * Secrets of a tenant, sealed: hub tokens and what else a workload's machine needs.
 *
 * Invariants: only what the deployment's key sealed is stored here, never a value; one secret a
 * name and tenant; setting it again seals it under a new id. `meta` says which key sealed them.
 */
import { type Action, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';

export type SecretRow = Row & {
  id: string;
  tenant_id: string;
  name: string;
  key_id: string;
  nonce: string;
  sealed: string;
  user_id: string;
  created_at: number;
  updated_at: number;
};

export type SealedSecret = Pick<
  SecretRow,
  'id' | 'tenant_id' | 'name' | 'key_id' | 'nonce' | 'sealed'
>;

export type SetSecretArgs = SealedSecret & {
  user_id: string;
  now: number;
  /** Secrets that a tenant may have. */
  limit: number;
  action?: Action;
};

export async function setSecret(
  sql: Sql,
  args: SetSecretArgs,
): Promise<{ ok: true; row: SecretRow } | { ok: false; code: 'too_many_secrets' }> {
  const others = await sql.get<Row & { count: number }>(
    'select count(*) as count from secrets where tenant_id = $1 and name <> $2',
    [args.tenant_id, args.name],
  );
  if ((others?.count ?? 0) >= args.limit) return { ok: false, code: 'too_many_secrets' };
  const row = await sql.get<SecretRow>(
    `insert into secrets (id, tenant_id, name, key_id, nonce, sealed, user_id, created_at,
       updated_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $8)
     on conflict (tenant_id, name) do update set id = excluded.id, key_id = excluded.key_id,
       nonce = excluded.nonce, sealed = excluded.sealed, user_id = excluded.user_id,
       updated_at = excluded.updated_at
     returning *`,
    [
      args.id,
      args.tenant_id,
      args.name,
      args.key_id,
      args.nonce,
      args.sealed,
      args.user_id,
      args.now,
    ],
  );
  if (row === undefined) throw new Error('the secret did not come back');
  await recordAction(sql, args.action, { target: `secret:${args.name}` });
  return { ok: true, row };
}

/** Removes a secret; how many were there. */
export async function removeSecret(
  sql: Sql,
  args: { tenant_id: string; name: string; action?: Action },
): Promise<{ found: number }> {
  const found = await sql.run('delete from secrets where tenant_id = $1 and name = $2', [
    args.tenant_id,
    args.name,
  ]);
  if (found > 0) await recordAction(sql, args.action, { target: `secret:${args.name}` });
  return { found };
}

/** Seals again, under another key, what was not set anew meanwhile. */
export async function resealSecret(sql: Sql, args: SealedSecret): Promise<{ found: number }> {
  const found = await sql.run(
    `update secrets set key_id = $3, nonce = $4, sealed = $5
     where id = $1 and tenant_id = $2`,
    [args.id, args.tenant_id, args.key_id, args.nonce, args.sealed],
  );
  return { found };
}

/** Forgets every secret, and by which key they were sealed: that key is lost. */
export async function forgetSecrets(
  sql: Sql,
  _: Record<string, never>,
): Promise<{ forgotten: number }> {
  await sql.run("delete from meta where key = 'deployment_key'");
  return { forgotten: await sql.run('delete from secrets') };
}

/** Records which key seals from now on. */
export async function noteDeploymentKey(sql: Sql, args: { key_id: string }): Promise<null> {
  await sql.run(
    `insert into meta (key, value) values ('deployment_key', $1)
     on conflict (key) do update set value = excluded.value`,
    [args.key_id],
  );
  return null;
}

/** The id of the key that seals; null in a deployment that never had one. */
export const readDeploymentKey: Query<Record<string, never>, string | null> = async (sql) => {
  const row = await sql.get<Row & { value: string }>(
    "select value from meta where key = 'deployment_key'",
  );
  return row?.value ?? null;
};

export const findSecret: Query<{ tenant_id: string; name: string }, SecretRow | undefined> = (
  sql,
  args,
) =>
  sql.get<SecretRow>('select * from secrets where tenant_id = $1 and name = $2', [
    args.tenant_id,
    args.name,
  ]);

/** Names and times, by name. */
export const listSecrets: Query<
  { tenant_id: string; limit: number },
  (Row & Pick<SecretRow, 'name' | 'created_at' | 'updated_at'> & { user_name: string })[]
> = (sql, args) =>
  sql.all(
    `select s.name, s.created_at, s.updated_at, u.name as user_name
     from secrets s join users u on u.id = s.user_id
     where s.tenant_id = $1 order by s.name limit $2`,
    [args.tenant_id, args.limit],
  );

/** What another key than this one sealed. */
export const listForeignSecrets: Query<{ key_id: string; limit: number }, SecretRow[]> = (
  sql,
  args,
) =>
  sql.all<SecretRow>('select * from secrets where key_id <> $1 order by id limit $2', [
    args.key_id,
    args.limit,
  ]);
