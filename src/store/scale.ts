/**
 * Scaling an endpoint: how many runs of it are to answer at once (ADR-0062).
 *
 * Invariants: more of them are refused where they would exceed a quota; fewer of them end from the
 * highest on, and count until they are proven gone; a replica that stays is not touched; where none
 * of those that stay is ready, the workload runs no longer.
 */
import type { Details } from '../core/reasons.ts';
import { eventOf } from '../core/replicas.ts';
import { readSpec } from '../core/workload.ts';
import { recordAction } from './activity.ts';
import { noteWorkload, type WorkloadRow } from './events.ts';
import { type Idempotent, once } from './idempotency.ts';
import { closeMetered, type RunKeys } from './ledger.ts';
import { moveWorkload } from './moves.ts';
import { supersedeRuns } from './place.ts';
import { refuseClaim, withClaims } from './quotas.ts';
import {
  addReplicas,
  countingRuns,
  forgetReplicas,
  hasSeveral,
  readReplica,
  retryFailed,
  setReplica,
  settleClaims,
  siblingsOf,
} from './replicas.ts';
import { bumpMachinesOf, wantRun } from './runs.ts';
import type { Row, Sql } from './sql.ts';
import { type ChangeArgs, type ChangeResult, lockNamed } from './workloads.ts';

export type ScaleArgs = ChangeArgs & { replicas: number };
export type ScaleResult = ChangeResult | { ok: false; code: 'replicas_endpoints_only' };

export function scaleEndpoint(sql: Sql, args: ScaleArgs): Promise<Idempotent<ScaleResult>> {
  return once(sql, args.idempotency, args.now, async (): Promise<ScaleResult> => {
    const row = await lockNamed(sql, args);
    if (row === undefined) return { ok: false, code: 'not_found' };
    const is_gone = row.state === 'deleted' || row.state === 'deleting';
    if (is_gone) return { ok: false, code: 'already_deleted' };
    if (row.kind !== 'endpoint') return { ok: false, code: 'replicas_endpoints_only' };
    const scaled = await scale(sql, row, args);
    if (scaled.ok && scaled.row.revision !== row.revision) {
      const details = { name: row.name, from: row.replicas, to: args.replicas };
      await recordAction(sql, args.action, { target: `workload:${row.id}`, details });
    }
    return scaled;
  });
}

async function scale(sql: Sql, row: WorkloadRow, args: ScaleArgs): Promise<ScaleResult> {
  const { replicas: to, now } = args;
  const from = row.replicas;
  if (to === from) {
    return { ok: true, row: hasSeveral(row) ? await retryFailed(sql, row, now) : row };
  }
  if (to > from && claims(row)) {
    const claim = { ...(await withClaims(sql, row)), claims: Math.max(row.claims, to) };
    const over = await refuseClaim(sql, claim, row.id);
    if (over !== null) return { ok: false, code: 'quota_exceeded', details: over };
  }
  const spec = JSON.stringify({ ...readSpec(row.spec), replicas: to });
  const set = await sql.get<WorkloadRow>(
    `update workloads set spec = $2, replicas = $3, claims = $4, revision = revision + 1
     where id = $1 returning *`,
    [row.id, spec, to, Math.max(row.claims, to)],
  );
  if (set === undefined) throw new Error('the workload went while it was locked');
  const who = args.actor.replace(/^user:/, '');
  const said = { who, from, to: to === 1 ? '1 replica' : `${to} replicas` };
  const noted = await noteWorkload(sql, set, { code: 'replicas_scaled', details: said }, args);
  const done =
    to > from ? await raise(sql, noted, from, args) : await lower(sql, noted, said, args);
  return { ok: true, row: done };
}

function claims({ state }: WorkloadRow): boolean {
  return state !== 'stopped' && state !== 'failed';
}

async function raise(
  sql: Sql,
  row: WorkloadRow,
  from: number,
  args: ScaleArgs,
): Promise<WorkloadRow> {
  const { now } = args;
  await addReplicas(sql, row.id, { from: 0, to: row.replicas, now });
  if (from === 1) {
    // What was said of the workload is from now on said of its first replica.
    const runs = await countingRuns(sql, row.id);
    const is_placed = runs.some((run) => run.replica === 0 && run.ended_at === null);
    const { attempts, not_before } = row;
    const state = is_placed ? 'placed' : 'waiting';
    await setReplica(
      sql,
      { workload_id: row.id, replica: 0 },
      { state, attempts, not_before },
      now,
    );
  }
  // One that was to go and is not proven gone is followed by another.
  for (let replica = from; replica < row.replicas; replica += 1) {
    await supersedeRuns(sql, { workload_id: row.id, replica }, now);
  }
  await bumpMachinesOf(sql, row.id);
  return settleClaims(sql, row);
}

async function lower(
  sql: Sql,
  row: WorkloadRow,
  details: Details,
  args: ScaleArgs,
): Promise<WorkloadRow> {
  const going = await sql.all<Row & RunKeys>(
    `select workload_id, replica, run_epoch from runs
     where workload_id = $1 and replica >= $2 and superseded_at is null and removed_at is null`,
    [row.id, row.replicas],
  );
  for (const run of going) {
    await wantRun(sql, run, 'remove');
    await closeMetered(sql, run, args);
  }
  await bumpMachinesOf(sql, row.id);
  await sql.run('delete from replicas where workload_id = $1 and replica >= $2', [
    row.id,
    row.replicas,
  ]);
  const settled = await settleClaims(sql, row);
  const left = await siblingsOf(sql, settled, -1);
  const event = eventOf(settled.state, left);
  const first = await readReplica(sql, { workload_id: row.id, replica: 0 });
  if (!hasSeveral(row)) await forgetReplicas(sql, row.id);
  if (event === null) return settled;
  const set = {
    ...(event === 'replace' ? { not_before: left.not_before ?? 0 } : {}),
    ...(hasSeveral(row) || first === undefined ? {} : { attempts: first.attempts }),
  };
  const why = { code: 'replicas_scaled', details } as const;
  return (await moveWorkload(sql, settled, { event, set, ...why }, args)) ?? settled;
}
