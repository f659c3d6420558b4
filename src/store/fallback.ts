/**
 * Fallbacks in the store: what a placement may be, and what is kept of one that was taken
 * (ADR-0059).
 *
 * Invariants: a run is of what was asked or of a step of the workload's own list, once it waited
 * for that long, checked in the transaction that places it; what stands in is what it claims of its
 * quota; a run keeps what it stands in for, whatever becomes of the list.
 */
import {
  fallbackText,
  isDue,
  movesAway,
  stepSpec,
  type TakenFallback,
  takenDetails,
  takenOf,
} from '../core/fallback.ts';
import { formatDuration } from '../core/format.ts';
import type { Details } from '../core/reasons.ts';
import { type Placement, readSpec, type WorkloadSpec } from '../core/workload.ts';
import { type Action, recordAction } from './activity.ts';
import { type Cause, noteWorkload, type WorkloadRow } from './events.ts';
import { refuseClaim, setClaims } from './quotas.ts';
import type { Sql } from './sql.ts';
import { type ChangeResult, lockNamed } from './workloads.ts';

/** As what a run is placed: the spec that it gets, and the step that this is of, if any. */
export type PlacedAs = { spec: WorkloadSpec; taken: TakenFallback | null };

/** Null where neither what was asked nor its list allows it, or not yet, or not any more. */
export function placedAs(
  row: WorkloadRow,
  placement: Placement,
  number: number,
  now: number,
): PlacedAs | null {
  const asked = readSpec(row.spec);
  const spec = number === 0 ? asked : stepSpec(asked, number);
  const step = asked.fallback[number - 1];
  if (spec === null || !isOfSpec(spec, placement, row)) return null;
  if (number === 0 || step === undefined) return { spec, taken: null };
  const due = row.fallback_due === 1 || isDue(row.state_since, asked.fallback_after_ms, now);
  if (!due || (row.home_machine_id && movesAway(step))) return null;
  const waited_ms = now - row.state_since;
  return { spec, taken: takenOf(asked, number, placement.placed_class, waited_ms) };
}

function isOfSpec(
  { gpu_class, machine }: WorkloadSpec,
  placement: Placement,
  { home_machine_id }: Pick<WorkloadRow, 'home_machine_id'>,
): boolean {
  if (gpu_class !== null && placement.placed_class !== gpu_class) return false;
  // What has a home is there or nowhere.
  const only = home_machine_id || machine?.id || placement.machine_id;
  return only === placement.machine_id;
}

/** Has the workload claim what it is placed as; why its quota refuses that, or null. */
export async function claimPlaced(
  sql: Sql,
  row: WorkloadRow,
  { spec, taken }: PlacedAs,
): Promise<Details | null> {
  if (row.fallback_due === 1) {
    await sql.run('update workloads set fallback_due = 0 where id = $1', [row.id]);
  }
  const step = taken?.step ?? 0;
  if (row.fallback_step === step && row.cpu_millis > 0) return null;
  if (row.fallback_step !== step) {
    const over = await refuseClaim(sql, { ...row, ...amountsOf(spec) }, row.id);
    if (over !== null) return over;
  }
  await setClaims(sql, row, spec, step);
  return null;
}

export function amountsOf(spec: WorkloadSpec) {
  const { gpu_count, cpu_millis, memory_bytes, disk_bytes } = spec;
  return { gpu_class: spec.gpu_class ?? '', gpu_count, cpu_millis, memory_bytes, disk_bytes };
}

/** Says on the timeline what stands in for what; returns the row as it is then. */
export async function noteTaken(
  sql: Sql,
  row: WorkloadRow,
  taken: TakenFallback | null,
  on: Pick<Placement, 'machine_name' | 'placed_class'>,
  cause: Cause,
): Promise<WorkloadRow> {
  if (taken === null) return row;
  const details = takenDetails(taken, on);
  return noteWorkload(sql, row, { code: 'placed_by_fallback', details }, cause);
}

export type FallbackArgs = Cause & {
  tenant_id: string;
  /** Id or name. */
  workload: string;
  revision: number;
  fallback: WorkloadSpec['fallback'];
  fallback_after_ms: number;
  fallback_return: boolean;
  action?: Action;
};

export type FallbackResult =
  | ChangeResult
  | { ok: false; code: 'fallback_not_now'; details: Details }
  | { ok: false; code: 'changed_meanwhile' };

/** Replaces the list of a workload that waits or is stopped; what runs was placed by the old one. */
export async function setFallback(sql: Sql, args: FallbackArgs): Promise<FallbackResult> {
  const row = await lockNamed(sql, args);
  if (row === undefined) return { ok: false, code: 'not_found' };
  if (row.state === 'deleted') return { ok: false, code: 'already_deleted' };
  if (!changeable.has(row.state)) {
    const details = { name: row.name, state: row.state };
    return { ok: false, code: 'fallback_not_now', details };
  }
  // The steps were worked out from the spec that this revision had.
  if (row.revision !== args.revision) return { ok: false, code: 'changed_meanwhile' };
  const { fallback, fallback_after_ms, fallback_return } = args;
  const spec = { ...readSpec(row.spec), fallback, fallback_after_ms, fallback_return };
  const changed = await sql.get<WorkloadRow>(
    `update workloads set spec = $2, fallback = $3, fallback_return = $4, fallback_due = 0,
       revision = revision + 1 where id = $1 returning *`,
    [row.id, JSON.stringify(spec), fallbackText(spec), fallback_return ? 1 : 0],
  );
  if (changed === undefined) throw new Error('the workload went while it was locked');
  const who = args.actor.replace(/^user:/, '');
  const details = { who, fallback: inWords(spec) };
  const noted = await noteWorkload(sql, changed, { code: 'fallback_set', details }, args);
  await recordAction(sql, args.action, {
    target: `workload:${row.id}`,
    details: { name: row.name, fallback: details.fallback },
  });
  return { ok: true, row: noted };
}

const changeable = new Set(['pending', 'queued', 'stopped', 'failed']);

function inWords({ fallback, fallback_after_ms }: WorkloadSpec): string {
  if (fallback.length === 0) return 'none';
  return `${fallback.map(({ step }) => step).join(', ')} after ${formatDuration(fallback_after_ms)}`;
}
