/**
 * Runs and their holds: attempts of a workload on a machine, and what they keep of it.
 *
 * Invariants: a run is placed together with its hold, its event and the machine's generation; sums
 * of holds are checked with the machine's row locked, so no machine is promised twice; a hold ends
 * by proof of exit, never by a wish; a superseded run's report changes that run alone.
 */
import { formatMemory } from '../core/format.ts';
import { judgeReport, type Verdict } from '../core/judge.ts';
import { type RunExit, runName } from '../core/run.ts';
import type { DriverName, Sharing } from '../core/trust.ts';
import { type Amounts, type Placement, readSpec, type WorkloadSpec } from '../core/workload.ts';
import { type Cause, moveWorkload, noteWorkload, type WorkloadRow } from './events.ts';
import { closeHeld, closeMetered, correctMetered, openInterval } from './ledger.ts';
import { steadyOf } from './ledger-clock.ts';
import { type Heard, proveRuns } from './proofs.ts';
import { withClaims } from './quotas.ts';
import { isReconciled, markReconciled, nextRunEpoch } from './restore.ts';
import type { Query, Row, Sql } from './sql.ts';

export type RunRow = Row & {
  workload_id: string;
  replica: number;
  run_epoch: number;
  machine_id: string;
  driver: DriverName;
  isolation: 'strong' | 'weak';
  placed_class: string;
  wanted: 'run' | 'park' | 'remove';
  observed: 'present' | 'absent' | 'unknown';
  proven_at: number | null;
  /** The last proof that it executed, on the ledger's clock. */
  proven_steady: number | null;
  ready_at: number | null;
  ended_at: number | null;
  exit: string | null;
  removed_at: number | null;
  created_at: number;
  /** Programs of it that were ended for lack of memory, as far as was noted. */
  oom_kills: number;
};

export type PlaceArgs = Cause & {
  workload_id: string;
  revision: number;
  placement: Placement;
};

export type PlaceResult = {
  outcome: 'placed' | 'changed_meanwhile' | 'no_room' | 'unreconciled';
};

/** Places a waiting workload: a new run, its hold, and the machine's next generation. */
export async function placeWorkload(sql: Sql, args: PlaceArgs): Promise<PlaceResult> {
  const row = await sql.get<WorkloadRow>(
    `select * from workloads where id = $1 and revision = $2
       and state in ('pending', 'queued') ${sql.forUpdate}`,
    [args.workload_id, args.revision],
  );
  if (row === undefined) return { outcome: 'changed_meanwhile' };
  const unproven = await sql.get(
    'select run_epoch from runs where workload_id = $1 and ended_at is null',
    [row.id],
  );
  if (unproven !== undefined) return { outcome: 'changed_meanwhile' };
  if (!(await isReconciled(sql, row.restored_epoch))) return { outcome: 'unreconciled' };
  const asked = readSpec(row.spec);
  await withClaims(sql, row);
  const machine_id = args.placement.machine_id;
  if (!(await hasRoom(sql, machine_id, asked))) return { outcome: 'no_room' };
  const run_epoch = nextRunEpoch(row);
  await sql.run(`update runs set wanted = 'remove' where workload_id = $1 and removed_at is null`, [
    row.id,
  ]);
  await insertRun(sql, args, run_epoch, asked);
  await bumpMachinesOf(sql, row.id);
  const { machine_name, driver, placed_class, isolation } = args.placement;
  const placed = await moveWorkload(
    sql,
    row,
    {
      event: 'place',
      code: null,
      set: { run_epoch },
      extra: { machine: machine_name, driver, placed_class, isolation, run_epoch },
    },
    args,
  );
  if (placed === null) throw new Error(`placing was refused in ${row.state}`);
  const run = { workload_id: row.id, replica: 0, run_epoch };
  await openInterval(sql, 'held', run, row, placed.event_at, args);
  return { outcome: 'placed' };
}

async function hasRoom(sql: Sql, machine_id: string, asked: Amounts): Promise<boolean> {
  const machine = await sql.get<Row & Amounts>(
    `select cpu_millis, memory_bytes, disk_bytes from machines where id = $1
       and reconciled_epoch >=
         coalesce((select cast(value as bigint) from meta where key = 'store_epoch'), 0)
     ${sql.forUpdate}`,
    [machine_id],
  );
  // One that has not told what it runs since a restore may be full of what is unknown here.
  if (machine === undefined) return false;
  const held = await sql.get<Row & Amounts>(
    `select cast(coalesce(sum(cpu_millis), 0) as bigint) as cpu_millis,
       cast(coalesce(sum(memory_bytes), 0) as bigint) as memory_bytes,
       cast(coalesce(sum(disk_bytes), 0) as bigint) as disk_bytes
     from holds where machine_id = $1 and released_at is null`,
    [machine_id],
  );
  const fits = (name: keyof Amounts) => asked[name] + (held?.[name] ?? 0) <= machine[name];
  return fits('cpu_millis') && fits('memory_bytes') && fits('disk_bytes');
}

async function insertRun(
  sql: Sql,
  args: PlaceArgs,
  run_epoch: number,
  asked: WorkloadSpec,
): Promise<void> {
  const { machine_id, driver, isolation, placed_class } = args.placement;
  await sql.run(
    `insert into runs (workload_id, replica, run_epoch, machine_id, driver, isolation,
       placed_class, wanted, observed, created_at)
     values ($1, 0, $2, $3, $4, $5, $6, 'run', 'absent', $7)`,
    [args.workload_id, run_epoch, machine_id, driver, isolation, placed_class, args.now],
  );
  await sql.run(
    `insert into holds (workload_id, replica, run_epoch, machine_id, device, cpu_millis,
       memory_bytes, disk_bytes, created_at)
     values ($1, 0, $2, $3, '', $4, $5, $6, $7)`,
    [
      args.workload_id,
      run_epoch,
      machine_id,
      asked.cpu_millis,
      asked.memory_bytes,
      asked.disk_bytes,
      args.now,
    ],
  );
}

/** Marks that the desired state of each machine with a run of this workload has changed. */
export async function bumpMachinesOf(sql: Sql, workload_id: string): Promise<void> {
  await sql.run(
    `update machines set generation = generation + 1 where id in
       (select machine_id from runs where workload_id = $1 and removed_at is null)`,
    [workload_id],
  );
}

export type ReportArgs = Cause & {
  machine_id: string;
  machine_name: string;
  observed: ReportedRun[];
  /** The report of the same agent before this one; null where this is the first word of it. */
  heard?: Heard | null;
};

export type ReportedRun = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  state: 'preparing' | 'ready' | 'ended' | 'parked' | 'removed' | 'unknown';
  stages: Record<string, string | number | null>[];
  exit: RunExit | null;
  reason: string | null;
  details: Record<string, string | number | boolean | null>;
  log_tail: string | null;
  oom_kills?: number | undefined;
  /** How long ago it ended, by the agent's monotonic clock; unknown where it did not see it. */
  ended_ago_ms?: number | null | undefined;
};

/** Applies what a machine reports of its runs. A repeat changes nothing. */
export async function applyReport(sql: Sql, args: ReportArgs): Promise<{ changed: number }> {
  let changed = 0;
  let strays = 0;
  await proveHeard(sql, args);
  for (const observed of args.observed) {
    const run = await sql.get<RunRow>(
      `select * from runs where workload_id = $1 and replica = $2 and run_epoch = $3
         and machine_id = $4`,
      [observed.workload_id, observed.replica, observed.run_epoch, args.machine_id],
    );
    if (run === undefined && observed.state !== 'removed') strays += 1;
    if (run === undefined || run.removed_at !== null) continue;
    const found = await sql.get<WorkloadRow>('select * from workloads where id = $1', [
      run.workload_id,
    ]);
    if (found === undefined) continue;
    const row = await noteMemoryKills(sql, args, run, found, observed);
    await proveRun(sql, args, run, observed);
    const verdict = judgeReport(
      { ...run, current: run.run_epoch === row.run_epoch },
      row,
      observed,
      { now: args.now, machine: args.machine_name },
    );
    if (verdict === null) continue;
    changed += 1;
    await applyVerdict(sql, args, run, row, observed, verdict);
  }
  if (strays === 0) await markReconciled(sql, args.machine_id);
  return { changed };
}

/** That a program of a run was ended for lack of memory, while the run goes on, is worth a note. */
async function noteMemoryKills(
  sql: Sql,
  args: ReportArgs,
  run: RunRow,
  row: WorkloadRow,
  { state, oom_kills = 0 }: ReportedRun,
): Promise<WorkloadRow> {
  const is_here = state === 'ready' && run.run_epoch === row.run_epoch && run.ended_at === null;
  if (!is_here || oom_kills <= run.oom_kills) return row;
  await sql.run(
    `update runs set oom_kills = $4 where workload_id = $1 and replica = $2 and run_epoch = $3`,
    [run.workload_id, run.replica, run.run_epoch, oom_kills],
  );
  const details = { count: oom_kills, memory: formatMemory(row.memory_bytes) };
  return noteWorkload(sql, row, { code: 'memory_kill', details }, args);
}

/** Ends a run by a person's word that its machine is powered off. */
export async function endByFence(
  sql: Sql,
  run: RunRow,
  machine: string,
  cause: Cause,
): Promise<void> {
  const row = await sql.get<WorkloadRow>('select * from workloads where id = $1', [
    run.workload_id,
  ]);
  if (row === undefined) return;
  const observed: ReportedRun = {
    ...{ workload_id: run.workload_id, replica: run.replica, run_epoch: run.run_epoch },
    ...{ state: 'ended', stages: [], exit: null, reason: 'machine_fenced' },
    ...{ details: { who: cause.actor }, log_tail: null },
  };
  const facts = { ...run, current: run.run_epoch === row.run_epoch };
  const verdict = judgeReport(facts, row, observed, { now: cause.now, machine });
  if (verdict === null) return;
  await closeMetered(sql, run, cause, 'unseen');
  await applyVerdict(sql, cause, run, row, observed, verdict);
  // Whatever comes back is not to go on.
  await sql.run(
    `update runs set wanted = 'remove' where workload_id = $1 and replica = $2 and run_epoch = $3`,
    [run.workload_id, run.replica, run.run_epoch],
  );
}

/** What an agent said before this report was so until then. */
async function proveHeard(sql: Sql, args: ReportArgs): Promise<void> {
  const { heard, machine_id, now } = args;
  if (heard === undefined || heard === null || heard.runs.length === 0) return;
  const steady = await steadyOf(sql, { now, mono: heard.mono });
  await proveRuns(sql, [{ machine_id, runs: heard.runs, steady }]);
}

/**
 * What a report proves of one run for the ledger: that it runs now, or that it ran until it ended.
 * An interval that was closed for want of proof is corrected by it.
 */
async function proveRun(
  sql: Sql,
  args: ReportArgs,
  run: RunRow,
  observed: ReportedRun,
): Promise<void> {
  if (run.ended_at !== null) return; // an older word: its end is proven
  if (observed.state === 'unknown') return;
  const ended = observed.state !== 'ready' && observed.state !== 'preparing';
  const ago_ms = ended ? observed.ended_ago_ms : 0;
  if (ago_ms === undefined || ago_ms === null) {
    // Nobody said before that it runs: it may have ended long ago.
    const unheard = args.heard?.runs.includes(runName(run)) === false;
    if (unheard || args.heard === null) await closeMetered(sql, run, args, 'unseen');
    return;
  }
  if (run.ready_at === null && observed.state !== 'ready') return;
  const steady = (await steadyOf(sql, args)) - Math.max(0, Math.floor(ago_ms));
  await sql.run(
    `update runs set proven_steady = $4 where workload_id = $1 and replica = $2 and run_epoch = $3
       and (proven_steady is null or proven_steady < $4)`,
    [run.workload_id, run.replica, run.run_epoch, steady],
  );
  await correctMetered(sql, run, steady);
  if (ended) await closeMetered(sql, run, args, { steady });
}

async function applyVerdict(
  sql: Sql,
  args: Cause,
  run: RunRow,
  row: WorkloadRow,
  observed: ReportedRun,
  verdict: Verdict,
): Promise<void> {
  const key = [run.workload_id, run.replica, run.run_epoch];
  const ended_at = verdict.ended ? (run.ended_at ?? args.now) : run.ended_at;
  const wanted = verdict.ended && run.wanted === 'run' ? 'park' : run.wanted;
  const removed_at = verdict.removed ? args.now : null;
  await sql.run(
    `update runs set observed = $4, proven_at = $5, ready_at = $6, ended_at = $7, exit = $8,
       removed_at = $9, wanted = $10
     where workload_id = $1 and replica = $2 and run_epoch = $3`,
    [
      ...key,
      verdict.observed,
      verdict.observed === 'unknown' ? run.proven_at : args.now,
      verdict.ready ? (run.ready_at ?? args.now) : run.ready_at,
      ended_at,
      observed.exit === null ? run.exit : JSON.stringify(observed.exit),
      removed_at,
      wanted,
    ],
  );
  if (ended_at !== null) {
    await sql.run(
      `update holds set released_at = $4 where workload_id = $1 and replica = $2
         and run_epoch = $3 and released_at is null`,
      [...key, args.now],
    );
    await closeHeld(sql, run, args);
  }
  const first_word = run.proven_at === null && verdict.observed !== 'unknown';
  const ends = run.ended_at === null && ended_at !== null;
  if (removed_at !== null || wanted !== run.wanted || first_word || ends) {
    await sql.run('update machines set generation = generation + 1 where id = $1', [
      run.machine_id,
    ]);
  }
  let moved: WorkloadRow | null = row;
  for (const move of verdict.moves) {
    if (moved !== null) moved = await moveWorkload(sql, moved, move, args);
  }
  if (moved?.state === 'deleting') await finishDeletion(sql, moved, args);
}

async function finishDeletion(sql: Sql, row: WorkloadRow, cause: Cause): Promise<void> {
  const left = await sql.get(
    'select run_epoch from runs where workload_id = $1 and removed_at is null',
    [row.id],
  );
  if (left !== undefined) return;
  await moveWorkload(sql, row, { event: 'removed', code: null }, cause);
}

export type DesiredRow = RunRow & {
  name: string;
  spec: string;
  intent: WorkloadRow['intent'];
  tenant_id: string;
  owner_tenant_id: string;
  sharing: Sharing;
};

/** Every run of a machine that is not yet gone without a trace, with what it is for. */
export const runsOfMachine: Query<{ machine_id: string }, DesiredRow[]> = (sql, args) =>
  sql.all<DesiredRow>(
    `select r.*, w.name, w.spec, w.intent, w.tenant_id, m.tenant_id as owner_tenant_id, m.sharing
     from runs r join workloads w on w.id = r.workload_id join machines m on m.id = r.machine_id
     where r.machine_id = $1 and r.removed_at is null
     order by r.workload_id, r.replica, r.run_epoch`,
    [args.machine_id],
  );
