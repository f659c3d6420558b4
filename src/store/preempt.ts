/**
 * What becomes of the workloads of a machine that its owner takes back (ADR-0060).
 *
 * Invariants: a workload is stopped as any other is, and is stopped once its runs are proven gone;
 * its intent stays running, its age stays, and no attempt is counted; only what was stopped for it
 * goes on again, where its owner may still run there and its quota allows it.
 */
import { guardPhrase } from '../core/guard.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import {
  isConcerned,
  isTakenBack,
  type Reclaim,
  type ReclaimScope,
  type ReclaimWhy,
} from '../core/reclaim.ts';
import { type DriverName, mayRun, type Sharing, trustLevel } from '../core/trust.ts';
import { type Cause, noteWorkload, type WorkloadRow } from './events.ts';
import { moveWorkload } from './moves.ts';
import { refuseClaim, withAskedClaims } from './quotas.ts';
import { takeAway } from './replica-moves.ts';
import type { Query, Row, Sql } from './sql.ts';
import { wantRuns } from './workloads.ts';

/** The machine, as far as it matters to those who run something there. */
export type TakenMachine = { id: string; name: string; tenant_id: string };

/** "its owner asks for it", "it runs on its battery". */
export function whyPhrase(why: ReclaimWhy): string {
  return why === 'owner_asked' ? 'its owner asks for it' : guardPhrase(why);
}

/** Workloads that run there, or are about to, and are concerned. */
async function concernedBy(
  sql: Sql,
  machine: TakenMachine,
  scope: ReclaimScope,
): Promise<WorkloadRow[]> {
  const rows = await sql.all<WorkloadRow>(
    `select * from workloads where state in ('provisioning', 'running') and id in
       (select workload_id from runs
        where machine_id = $1 and ended_at is null and wanted = 'run')
     order by created_at, id ${sql.forUpdate}`,
    [machine.id],
  );
  return rows.filter((row) => isConcerned(scope, machine.tenant_id, row.tenant_id));
}

/** Tells each of them. */
export async function tellConcerned(
  sql: Sql,
  machine: TakenMachine,
  scope: ReclaimScope,
  note: { code: ReasonCode; details: Details },
  cause: Cause,
): Promise<void> {
  for (const row of await concernedBy(sql, machine, scope)) {
    const details = { machine: machine.name, ...note.details };
    await noteWorkload(sql, row, { code: note.code, details }, cause);
  }
}

/** Stops each of them. */
export async function preemptConcerned(
  sql: Sql,
  machine: TakenMachine,
  scope: ReclaimScope,
  why: ReclaimWhy,
  cause: Cause,
): Promise<number> {
  const rows = await concernedBy(sql, machine, scope);
  for (const row of rows) await preempt(sql, row, machine, why, cause);
  return rows.length;
}

async function preempt(
  sql: Sql,
  row: WorkloadRow,
  machine: TakenMachine,
  why: ReclaimWhy,
  cause: Cause,
): Promise<void> {
  const details = { machine: machine.name, why: whyPhrase(why) };
  const extra = { why_code: why };
  // Of an endpoint with replicas elsewhere, those go on.
  const note = { code: 'replica_preempted', details, extra } as const;
  if (await takeAway(sql, row, machine.id, cause, note)) return;
  const set = { park_cause: 'preempted' };
  const move = { event: 'stop', code: 'preempted', details, extra, set } as const;
  const moved = await moveWorkload(sql, row, move, cause);
  if (moved === null) throw new Error(`stop was refused in ${row.state}`);
  await wantRuns(sql, row.id, 'park');
}

export type ResumeResult = {
  outcome: 'resumed' | 'waits' | 'not_preempted' | 'trust_lost' | 'quota_exceeded';
};

/** Where it ran, and how it would stand there now. */
type Place = Row & {
  name: string;
  owner_tenant_id: string;
  sharing: Sharing;
  driver: DriverName;
  driver_as: DriverName | null;
  is_guest: number;
  reclaim: string;
};

/** What was stopped for a machine goes on, where it may; a repeat changes nothing. */
export async function resumePreempted(
  sql: Sql,
  args: Cause & { workload_id: string },
): Promise<ResumeResult> {
  const row = await sql.get<WorkloadRow>(
    `select * from workloads where id = $1 and park_cause = 'preempted' and intent = 'running'
       ${sql.forUpdate}`,
    [args.workload_id],
  );
  if (row === undefined || (row.state !== 'stopped' && row.state !== 'stopping')) {
    return { outcome: 'not_preempted' };
  }
  const place = await placeOf(sql, row);
  if (place !== undefined) {
    const { owner_tenant_id, reclaim } = place;
    if (isTakenBack(parseReclaim(reclaim), owner_tenant_id, row.tenant_id)) {
      return { outcome: 'waits' };
    }
    if (!mayRunThere(row, place)) return parkForTrust(sql, row, place, args);
  }
  const details = { machine: place?.name ?? 'its machine' };
  const note = { code: 'preempted_goes_on', details } as const;
  if (row.state === 'stopping') {
    // It has to end first; that it is to start again is told to whoever hears of the end.
    await noteWorkload(sql, await unpark(sql, row), note, args);
    return { outcome: 'resumed' };
  }
  const over = await refuseClaim(sql, await withAskedClaims(sql, row), row.id);
  if (over !== null) {
    if (row.code !== 'quota_exceeded') {
      await moveWorkload(sql, row, { event: 'stop', code: 'quota_exceeded', details: over }, args);
    }
    return { outcome: 'quota_exceeded' };
  }
  const set = { park_cause: 'none', not_before: 0 };
  await moveWorkload(sql, row, { event: 'start', set, ...note }, args);
  return { outcome: 'resumed' };
}

function placeOf(sql: Sql, row: WorkloadRow): Promise<Place | undefined> {
  return sql.get<Place>(
    `select m.name, m.tenant_id as owner_tenant_id, m.sharing, m.reclaim, r.driver, r.driver_as,
       (select cast(count(*) as bigint) from machine_guests g
        where g.machine_id = m.id and g.tenant_id = $2) as is_guest
     from runs r join machines m on m.id = r.machine_id
     where r.workload_id = $1 and r.superseded_at is null and m.removed_at is null
     order by r.replica limit 1`,
    [row.id, row.tenant_id],
  );
}

function mayRunThere({ tenant_id }: WorkloadRow, place: Place): boolean {
  const { owner_tenant_id, is_guest, driver, sharing, driver_as } = place;
  const invited_tenant_ids = is_guest > 0 ? [tenant_id] : [];
  const trust = trustLevel(tenant_id, { owner_tenant_id, invited_tenant_ids });
  return mayRun(trust, driver, sharing, driver_as);
}

async function parkForTrust(
  sql: Sql,
  row: WorkloadRow,
  { name }: Place,
  cause: Cause,
): Promise<ResumeResult> {
  if (row.state === 'stopping') return { outcome: 'waits' };
  const set = { intent: 'stopped', park_cause: 'trust' } as const;
  const details = { machine: name };
  await moveWorkload(sql, row, { event: 'stop', code: 'trust_lost', details, set }, cause);
  return { outcome: 'trust_lost' };
}

async function unpark(sql: Sql, row: WorkloadRow): Promise<WorkloadRow> {
  const kept = await sql.get<WorkloadRow>(
    `update workloads set park_cause = 'none', revision = revision + 1 where id = $1 returning *`,
    [row.id],
  );
  return kept ?? row;
}

/** Lets all go on that was stopped for one machine, oldest first. */
export async function resumeOf(sql: Sql, machine_id: string, cause: Cause): Promise<number> {
  const rows = await sql.all<Row & { id: string }>(
    `select w.id from workloads w join runs r
       on r.workload_id = w.id and r.superseded_at is null and r.machine_id = $1
     where w.park_cause = 'preempted' and w.state in ('stopped', 'stopping')
       and w.intent = 'running'
     order by w.created_at, w.id`,
    [machine_id],
  );
  let resumed = 0;
  for (const { id } of rows) {
    const { outcome } = await resumePreempted(sql, { ...cause, workload_id: id });
    if (outcome === 'resumed') resumed += 1;
  }
  return resumed;
}

/** A machine's reclaim as it stands in its row. */
export function parseReclaim(text: string): Reclaim | null {
  return text === '' ? null : (JSON.parse(text) as Reclaim);
}

/** A page of what was stopped for a machine that is free again, and is meant to run. */
export const listPreempted: Query<{ after: string; limit: number }, (Row & { id: string })[]> = (
  sql,
  args,
) =>
  sql.all(
    `select w.id from workloads w left join runs r
       on r.workload_id = w.id and r.superseded_at is null and r.replica = 0
     left join machines m on m.id = r.machine_id
     where w.park_cause = 'preempted' and w.state = 'stopped' and w.intent = 'running'
       and w.id > $1 and coalesce(m.reclaim_bars, '') <> 'all'
       and (coalesce(m.reclaim_bars, '') = '' or m.tenant_id = w.tenant_id)
     order by w.id limit $2`,
    [args.after, args.limit],
  );
