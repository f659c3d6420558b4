/**
 * Model files: what machines keep, and what they are still to do about it.
 *
 * Invariants: a wish raises its number and the machine's generation in one transaction, so that it
 * is told; what a machine says of an older wish does not end a newer one; a model that a run is on
 * is never wished away; an agent adds rows for its machine's owner alone.
 */
import { placedSpec } from '../core/fallback.ts';
import { type Action, recordAction } from './activity.ts';
import { type IdempotencyKey, type Idempotent, once } from './idempotency.ts';
import type { Query, Row, Sql } from './sql.ts';

export type ModelFileRow = Row & {
  machine_id: string;
  id: string;
  tenant_id: string;
  source: string;
  wish: 'none' | 'fetch' | 'check' | 'remove';
  wish_number: number;
  done_wish: number;
  state: 'queued' | 'fetching' | 'ready' | 'failed' | 'removing';
  format: string | null;
  revision: string | null;
  sha256: string | null;
  bytes: number | null;
  code: string | null;
  details: string;
  checked: string | null;
  created_at: number;
  machine_name: string;
};

const shown = `f.*, m.name as machine_name
  from model_files f join machines m on m.id = f.machine_id`;

export type WishArgs = {
  machine_id: string;
  id: string;
  tenant_id: string;
  source: string;
  wish: 'fetch' | 'check' | 'remove';
  now: number;
  idempotency: IdempotencyKey;
  action?: Action;
};

export type WishResult =
  | { ok: true; row: ModelFileRow }
  | { ok: false; code: 'not_found' }
  | { ok: false; code: 'model_in_use'; source: string; users: string[] };

/** Wishes something of a machine. Only a fetch makes a row; `source` is then what it is of. */
export function wishModelFile(sql: Sql, args: WishArgs): Promise<Idempotent<WishResult>> {
  return once<WishResult>(sql, args.idempotency, args.now, async () => {
    const { machine_id, id, tenant_id, wish } = args;
    const key = [machine_id, id, tenant_id];
    const found = await sql.get<ModelFileRow>(
      `select * from model_files where machine_id = $1 and id = $2 and tenant_id = $3
         ${sql.forUpdate}`,
      key,
    );
    if (found === undefined && wish !== 'fetch') return { ok: false, code: 'not_found' };
    const users = wish === 'remove' ? await usersOf(sql, args, found?.source ?? '') : [];
    if (users.length > 0) {
      return { ok: false, code: 'model_in_use', source: found?.source ?? '', users };
    }
    if (found === undefined) await insert(sql, args, 'queued');
    await sql.run(
      `update model_files set wish = $4, wish_number = wish_number + 1, state = $5
       where machine_id = $1 and id = $2 and tenant_id = $3`,
      [...key, wish, stateAfter(wish, found?.state ?? 'queued')],
    );
    await bumpMachine(sql, machine_id);
    await recordAction(sql, args.action, {
      target: `model-file:${id}`,
      // Without a query, which may hold a signature.
      details: { wish, source: args.source.replace(/\?.*$/s, ''), machine_id },
    });
    const row = await findModelFile(sql, { tenant_id, id });
    if (row === undefined) throw new Error('the model file did not come back');
    return { ok: true, row };
  });
}

function stateAfter(wish: WishArgs['wish'], state: ModelFileRow['state']): ModelFileRow['state'] {
  if (wish === 'remove') return 'removing';
  // What is on its way, or here, stays so: its machine has nothing new to say of that.
  return wish === 'fetch' && state === 'failed' ? 'queued' : state;
}

type Added = Pick<WishArgs, 'machine_id' | 'id' | 'tenant_id' | 'source' | 'now'>;

async function insert(sql: Sql, row: Added, state: ModelFileRow['state']): Promise<void> {
  await sql.run(
    `insert into model_files (machine_id, id, tenant_id, source, wish, wish_number, done_wish,
       state, details, created_at)
     values ($1, $2, $3, $4, 'none', 0, 0, $5, '{}', $6)`,
    [row.machine_id, row.id, row.tenant_id, row.source, state, row.now],
  );
}

async function bumpMachine(sql: Sql, machine_id: string): Promise<void> {
  await sql.run('update machines set generation = generation + 1 where id = $1', [machine_id]);
}

/** Names of the tenant's workloads that run from a model on the machine. */
async function usersOf(sql: Sql, { machine_id, tenant_id }: WishArgs, source: string) {
  const rows = await listModelUses(sql, { tenant_id, machine_ids: [machine_id] });
  return rows.filter((row) => row.model === source).map((row) => row.name);
}

export type ReportedModelFile = {
  id: string;
  tenant_id: string | null;
  source: string;
  state: 'fetching' | 'ready' | 'failed' | 'removed';
  format: string | null;
  revision: string | null;
  sha256: string | null;
  bytes: number | null;
  done_bytes: number | null;
  total_bytes: number | null;
  code: string | null;
  details: Record<string, string | number | boolean | null>;
  checked: Record<string, string | number | boolean | null> | null;
  done_wish: number;
};

/** Applies what a machine says that it keeps: all of it. A repeat changes nothing. */
export async function applyModelFiles(
  sql: Sql,
  args: { machine_id: string; files: ReportedModelFile[]; now: number },
): Promise<{ changed: number }> {
  const { machine_id } = args;
  const machine = await sql.get<Row & { tenant_id: string }>(
    `select tenant_id from machines where id = $1 ${sql.forUpdate}`,
    [machine_id],
  );
  if (machine === undefined) return { changed: 0 };
  const rows = await sql.all<ModelFileRow>('select * from model_files where machine_id = $1', [
    machine_id,
  ]);
  const known = new Map(rows.map((row) => [row.id, row]));
  let changed = 0;
  for (const file of args.files) {
    const row = known.get(file.id);
    known.delete(file.id);
    const owner = file.tenant_id ?? machine.tenant_id;
    if (row === undefined) {
      if (file.state === 'removed' || owner !== machine.tenant_id) continue;
      await insert(sql, { ...file, machine_id, tenant_id: owner, now: args.now }, 'queued');
    }
    changed += await apply(sql, machine_id, row, file);
  }
  // What it does not have and is not asked for is gone.
  for (const row of known.values()) {
    if (row.wish_number > row.done_wish) continue;
    await remove(sql, machine_id, row.id);
    changed += 1;
  }
  if (changed > 0) await bumpMachine(sql, machine_id);
  return { changed };
}

async function remove(sql: Sql, machine_id: string, id: string): Promise<void> {
  await sql.run('delete from model_files where machine_id = $1 and id = $2', [machine_id, id]);
}

async function apply(
  sql: Sql,
  machine_id: string,
  row: ModelFileRow | undefined,
  file: ReportedModelFile,
): Promise<number> {
  const wish_number = row?.wish_number ?? 0;
  const is_last = file.done_wish >= wish_number;
  if (file.state === 'removed') {
    if (is_last) await remove(sql, machine_id, file.id);
    return is_last ? 1 : 0;
  }
  const next = {
    // What is still wished is shown until it is done.
    state: is_last || file.state === 'fetching' ? file.state : (row?.state ?? file.state),
    done_wish: Math.max(row?.done_wish ?? 0, Math.min(file.done_wish, wish_number)),
    format: file.format,
    revision: file.revision,
    sha256: file.sha256,
    bytes: file.bytes,
    code: file.code,
    details: JSON.stringify(file.details),
    checked: file.checked === null ? null : JSON.stringify(file.checked),
  };
  const same =
    row !== undefined &&
    Object.entries(next).every(([name, value]) => row[name as keyof ModelFileRow] === value);
  if (same) return 0;
  await sql.run(
    `update model_files set state = $3, done_wish = $4, format = $5, revision = $6, sha256 = $7,
       bytes = $8, code = $9, details = $10, checked = $11
     where machine_id = $1 and id = $2`,
    [machine_id, file.id, ...Object.values(next)],
  );
  return 1;
}

/** What a machine is still to do, oldest row first. */
export const wishesOfMachine: Query<{ machine_id: string }, ModelFileRow[]> = (sql, args) =>
  sql.all<ModelFileRow>(
    `select ${shown} where f.machine_id = $1 and f.wish_number > f.done_wish
     order by f.created_at, f.id limit 1000`,
    [args.machine_id],
  );

export const findModelFile: Query<{ tenant_id: string; id: string }, ModelFileRow | undefined> = (
  sql,
  args,
) =>
  sql.get<ModelFileRow>(`select ${shown} where f.id = $1 and f.tenant_id = $2`, [
    args.id,
    args.tenant_id,
  ]);

export type ModelFilePlace = { machine_id: string; source: string; id: string };

/** A tenant's model files by machine and source, after a place. */
export const listModelFiles: Query<
  { tenant_id: string; after: ModelFilePlace | null; limit: number },
  ModelFileRow[]
> = (sql, args) => {
  const { tenant_id, after, limit } = args;
  const { machine_id, source, id } = after ?? { machine_id: '', source: '', id: '' };
  return sql.all<ModelFileRow>(
    `select ${shown}
     where f.tenant_id = $1 and (f.machine_id, f.source, f.id) > ($2, $3, $4)
     order by f.machine_id, f.source, f.id limit $5`,
    [tenant_id, machine_id, source, id, limit],
  );
};

/** Which of a tenant's workloads have a run that has not ended, on which machine, of which model. */
export async function listModelUses(
  sql: Sql,
  args: { tenant_id: string; machine_ids: string[] },
): Promise<{ machine_id: string; name: string; model: string | null }[]> {
  type Use = { machine_id: string; name: string; spec: string; fallback: string };
  const rows = await sql.all<Row & Use>(
    `select r.machine_id, r.fallback, w.name, w.spec
     from runs r join workloads w on w.id = r.workload_id
     where r.ended_at is null and r.removed_at is null
       and w.tenant_id = $1 and r.machine_id ${sql.in(args.machine_ids, 2)}
     order by w.name limit 5000`,
    [args.tenant_id, ...args.machine_ids],
  );
  return rows.map(({ machine_id, name, spec, fallback }) => {
    const { model } = placedSpec(spec, fallback);
    return { machine_id, name, model };
  });
}
