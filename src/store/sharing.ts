/**
 * With whom a machine is shared, and whose it is (ADR-0056).
 *
 * Invariants: only its owner's people share a machine further; an operator of another tenant may
 * only take back; what may not run there any more is stopped in the same transaction; nothing is
 * placed where the row says by then that it may not run; a machine that is given away is shared
 * with nobody and takes nothing until its new owner says so.
 */
import { type DriverName, mayRun, type Sharing, trustLevel } from '../core/trust.ts';
import type { Placement } from '../core/workload.ts';
import { type Action, recordAction } from './activity.ts';
import type { Cause, WorkloadRow } from './events.ts';
import { freeMachineName, lockMachine, type MachineRow } from './machines.ts';
import { type Move, moveWorkload } from './moves.ts';
import { takeAway } from './replica-moves.ts';
import { type RunRow, wantRun } from './runs.ts';
import type { Row, Sql } from './sql.ts';
import { wantRuns } from './workloads.ts';

/** Who changes a machine, and what of it they know. */
export type MachineChange = Cause & {
  machine_id: string;
  /** Of whoever asks. */
  tenant_id: string;
  action?: Action | undefined;
};

export type ShareArgs = MachineChange & {
  /** 1: may take back what others share. */
  is_operator: number;
  /** Null: as it is, but that inviting somebody to a private machine makes it invite-only. */
  sharing: Sharing | null;
  /** Slugs of tenants. */
  invite: string[];
  uninvite: string[];
  /** How many guests a machine may have. */
  guest_limit: number;
};

export type ShareResult =
  | { ok: true; parked: number }
  | { ok: false; code: 'not_found'; tenant: string | null }
  | { ok: false; code: 'sharing_not_yours' | 'limit_reached' };

const reaches: readonly Sharing[] = ['private', 'invite-only', 'community'];
const reach = (sharing: Sharing) => reaches.indexOf(sharing);

/** Changes with whom a machine is shared. A private one has no guests. */
export async function shareMachine(sql: Sql, args: ShareArgs): Promise<ShareResult> {
  const row = await lockMachine(sql, args.machine_id);
  const is_owner = row?.tenant_id === args.tenant_id;
  const is_taker = args.is_operator === 1 && row?.sharing !== 'private';
  if (row === undefined || !(is_owner || is_taker)) {
    return { ok: false, code: 'not_found', tenant: null };
  }
  const asked = row.sharing === 'private' && args.invite.length > 0 ? 'invite-only' : row.sharing;
  const sharing = args.sharing ?? asked;
  const is_more = args.invite.length > 0 || reach(sharing) > reach(row.sharing);
  if (!is_owner && is_more) return { ok: false, code: 'sharing_not_yours' };
  const known = await tenantsOf(sql, [...args.invite, ...args.uninvite]);
  const unknown = [...args.invite, ...args.uninvite].find((slug) => !known.has(slug));
  if (unknown !== undefined) return { ok: false, code: 'not_found', tenant: unknown };
  const before = await guestsOf(sql, row.id);
  const guests = new Set(before);
  for (const slug of args.invite) guests.add(known.get(slug) ?? '');
  for (const slug of args.uninvite) guests.delete(known.get(slug) ?? '');
  guests.delete(row.tenant_id);
  if (sharing === 'private') guests.clear();
  if (guests.size > args.guest_limit) return { ok: false, code: 'limit_reached' };
  const is_same = guests.size === before.size && [...guests].every((id) => before.has(id));
  if (sharing === row.sharing && is_same) return { ok: true, parked: 0 };
  await writeGuests(sql, row.id, before, guests, args.now);
  await sql.run(
    `update machines set sharing = $2, generation = generation + 1,
       inventory_revision = inventory_revision + 1 where id = $1`,
    [row.id, sharing],
  );
  const parked = await parkUntrusted(sql, row.id, args);
  const { invite, uninvite } = args;
  const details = {
    ...{ name: row.name, sharing, before: row.sharing, parked },
    ...(invite.length > 0 ? { invited: invite.join(' ') } : {}),
    ...(uninvite.length > 0 ? { uninvited: uninvite.join(' ') } : {}),
  };
  await recordAction(sql, args.action, { target: `machine:${row.id}`, details });
  return { ok: true, parked };
}

/** Ids by slug. One that is disabled gets nothing and is none. */
async function tenantsOf(sql: Sql, slugs: string[]): Promise<Map<string, string>> {
  if (slugs.length === 0) return new Map();
  const rows = await sql.all<Row & { id: string; slug: string }>(
    `select id, slug from tenants where slug ${sql.in(slugs, 1)}`,
    slugs,
  );
  return new Map(rows.map(({ slug, id }) => [slug, id]));
}

async function guestsOf(sql: Sql, machine_id: string): Promise<Set<string>> {
  const rows = await sql.all<Row & { tenant_id: string }>(
    'select tenant_id from machine_guests where machine_id = $1',
    [machine_id],
  );
  return new Set(rows.map((row) => row.tenant_id));
}

async function writeGuests(
  sql: Sql,
  machine_id: string,
  before: ReadonlySet<string>,
  after: ReadonlySet<string>,
  now: number,
): Promise<void> {
  for (const id of before) {
    if (after.has(id)) continue;
    await sql.run('delete from machine_guests where machine_id = $1 and tenant_id = $2', [
      machine_id,
      id,
    ]);
  }
  for (const id of after) {
    if (before.has(id)) continue;
    await sql.run(
      'insert into machine_guests (machine_id, tenant_id, created_at) values ($1, $2, $3)',
      [machine_id, id, now],
    );
  }
}

export type GiveArgs = MachineChange & {
  /** Slug of who gets it. */
  to: string;
};

export type GiveResult =
  | { ok: true; parked: number; name: string }
  | { ok: false; code: 'not_found'; tenant: string | null };

/**
 * Gives a machine to another tenant. There it is private and drained: else whoever wants to see
 * what others run would only have to give them a machine.
 */
export async function giveMachine(sql: Sql, args: GiveArgs): Promise<GiveResult> {
  const row = await lockMachine(sql, args.machine_id);
  if (row?.tenant_id !== args.tenant_id) return { ok: false, code: 'not_found', tenant: null };
  const taker = await sql.get<Row & { id: string }>(
    'select id from tenants where slug = $1 and disabled_at is null',
    [args.to],
  );
  const to = taker?.id;
  if (to === undefined) return { ok: false, code: 'not_found', tenant: args.to };
  if (to === row.tenant_id) return { ok: true, parked: 0, name: row.name };
  const name = await freeMachineName(sql, { id: row.id, tenant_id: to }, row.name);
  await sql.run('delete from machine_guests where machine_id = $1', [row.id]);
  await sql.run('delete from model_files where machine_id = $1 and tenant_id <> $2', [row.id, to]);
  await sql.run(
    `update machines set tenant_id = $2, name = $3, sharing = 'private', drained_at = $4,
       reclaim = '', reclaim_bars = '',
       generation = generation + 1, inventory_revision = inventory_revision + 1 where id = $1`,
    [row.id, to, name, args.now],
  );
  const parked = await parkUntrusted(sql, row.id, args);
  await sql.run(
    `update runs set isolation_tier = case when
       (select w.tenant_id from workloads w where w.id = runs.workload_id) = $2
       then 'trusted' else 'untrusted' end where machine_id = $1 and ended_at is null`,
    [row.id, to],
  );
  const details = { name: row.name, to: args.to, parked };
  await recordAction(sql, args.action, { target: `machine:${row.id}`, details });
  return { ok: true, parked, name };
}

type TrustFacts = Pick<MachineRow, 'tenant_id' | 'sharing'> & { invited: number };

function mayRunThere(
  tenant_id: string,
  run: { driver: DriverName; as: DriverName | null },
  { tenant_id: owner_tenant_id, sharing, invited }: TrustFacts,
): boolean {
  const invited_tenant_ids = invited > 0 ? [tenant_id] : [];
  const trust = trustLevel(tenant_id, { owner_tenant_id, invited_tenant_ids });
  return mayRun(trust, run.driver, sharing, run.as);
}

/**
 * Whether a machine takes something of a tenant by now: placement decided on what was so a moment
 * before. The machine's row stays locked, so that nothing of this changes until the run is there.
 */
export async function mayPlace(
  sql: Sql,
  tenant_id: string,
  { machine_id, driver, as = null }: Placement,
  /** Where it has to be; null where that is no matter. */
  region: string | null,
): Promise<boolean> {
  const row = await sql.get<Row & TrustFacts>(
    `select tenant_id, sharing, (select count(*) from machine_guests g
         where g.machine_id = machines.id and g.tenant_id = $2) as invited
     from machines where id = $1 and removed_at is null and drained_at is null
       and (reclaim_bars = '' or (reclaim_bars = 'guests' and tenant_id = $2))
       and ($3 = '' or region = $3) ${sql.forUpdate}`,
    [machine_id, tenant_id, region ?? ''],
  );
  return row !== undefined && mayRunThere(tenant_id, { driver, as }, row);
}

/** Stops what may not run on a machine any more; how many workloads that are. */
export async function parkUntrusted(sql: Sql, machine_id: string, cause: Cause): Promise<number> {
  const rows = await sql.all<RunRow & TrustFacts & { workload_tenant_id: string }>(
    `select r.*, w.tenant_id as workload_tenant_id, m.tenant_id, m.sharing,
       (select count(*) from machine_guests g
         where g.machine_id = m.id and g.tenant_id = w.tenant_id) as invited
     from runs r join workloads w on w.id = r.workload_id join machines m on m.id = r.machine_id
     where r.machine_id = $1 and r.ended_at is null and r.wanted = 'run' order by r.workload_id`,
    [machine_id],
  );
  const over = rows.filter((run) => {
    const { workload_tenant_id, driver, driver_as } = run;
    return !mayRunThere(workload_tenant_id, { driver, as: driver_as }, run);
  });
  const set = { intent: 'stopped', park_cause: 'trust' } as const;
  return parkRuns(sql, over, { event: 'stop', code: 'trust_lost', set }, cause);
}

/**
 * Has runs of a machine parked. Their workloads are stopped, but for those that have replicas
 * elsewhere: these go on, and the one that is parked is placed anew. How many were stopped.
 */
export async function parkRuns(
  sql: Sql,
  runs: readonly RunRow[],
  move: Move,
  cause: Cause,
): Promise<number> {
  let parked = 0;
  for (const run of runs) {
    const row = await sql.get<WorkloadRow>('select * from workloads where id = $1', [
      run.workload_id,
    ]);
    if (row === undefined) continue;
    const is_current = run.superseded_at === null;
    if (is_current && (await takeAway(sql, row, run.machine_id, cause))) continue;
    await wantRun(sql, run, 'park');
    if (!is_current || (row.state !== 'provisioning' && row.state !== 'running')) continue;
    await moveWorkload(sql, row, move, cause);
    await wantRuns(sql, row.id, 'park');
    parked += 1;
  }
  return parked;
}
