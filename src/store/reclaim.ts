/**
 * Machines that their owners take back, and let go again (ADR-0060).
 *
 * Invariants: the machine's row is locked before anything is decided; what follows from a word or
 * from the time that passed happens in the same transaction (core/reclaim.ts decides it); nothing
 * is written where nothing changes; another tenant's machine is not found.
 */

import { formatDuration } from '../core/format.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import {
  type Advanced,
  advance,
  askFor,
  hearGuard,
  isInEffect,
  letGo,
  type Reclaim,
  type ReclaimAsk,
  type ReclaimGuard,
  type ReclaimInstant,
  type ReclaimStep,
} from '../core/reclaim.ts';
import { type Action, recordAction } from './activity.ts';
import type { Cause } from './events.ts';
import { steadyOf } from './ledger-clock.ts';
import {
  parseReclaim,
  preemptConcerned,
  resumeOf,
  type TakenMachine,
  tellConcerned,
  whyPhrase,
} from './preempt.ts';
import type { Query, Row, Sql } from './sql.ts';

export type ReclaimArgs = Cause & {
  machine_id: string;
  /** Whose machine it has to be. */
  tenant_id: string;
  by: string;
  scope: ReclaimAsk['scope'];
  grace_ms: number;
  start: { when: 'now' | 'active' } | { when: 'at'; at: number } | { when: 'in'; in_ms: number };
  until: number | null;
  /** What its guard says, as far as the control plane has heard. */
  guard: ReclaimGuard | null;
  action?: Action;
};

export type ReclaimResult =
  | { ok: true }
  | ({
      ok: false;
      code: 'not_found' | 'reclaim_in_effect' | 'not_reclaimed' | 'reclaimed_by_guard';
    } & { details?: Details });

type MachineRow = Row & TakenMachine & { reclaim: string; removed_at: number | null };

/** Its owner takes a machine back: now, later, or whenever they use it. */
export async function reclaimMachine(sql: Sql, args: ReclaimArgs): Promise<ReclaimResult> {
  const machine = await lockOwn(sql, args);
  if (machine === undefined) return { ok: false, code: 'not_found' };
  const at = await instantOf(sql, args);
  const before = parseReclaim(machine.reclaim);
  if (isInEffect(before) && args.start.when !== 'now') {
    return { ok: false, code: 'reclaim_in_effect', details: { machine: machine.name } };
  }
  const { by, scope, grace_ms, until } = args;
  const start =
    args.start.when === 'in'
      ? { when: 'in' as const, due: at.steady + args.start.in_ms, at: at.now + args.start.in_ms }
      : args.start;
  const ask: ReclaimAsk = { by, asked_at: args.now, scope, grace_ms, start, until };
  await carryOut(sql, machine, askFor(before, ask, at, args.guard), at, args);
  const details = { name: machine.name, scope, when: args.start.when, grace_ms, until };
  await recordAction(sql, args.action, { target: `machine:${machine.id}`, details });
  return { ok: true };
}

export type ReleaseArgs = Cause & { machine_id: string; tenant_id: string; action?: Action };

/** Its owner lets go of it: what was stopped for that goes on. */
export async function releaseMachine(sql: Sql, args: ReleaseArgs): Promise<ReclaimResult> {
  const machine = await lockOwn(sql, args);
  if (machine === undefined) return { ok: false, code: 'not_found' };
  const before = parseReclaim(machine.reclaim);
  const { name } = machine;
  if (before === null || before.ask === null) {
    const by_guard = before?.guard ?? null;
    if (by_guard === null) return { ok: false, code: 'not_reclaimed', details: { machine: name } };
    const details = { machine: name, why: whyPhrase(by_guard.why) };
    return { ok: false, code: 'reclaimed_by_guard', details };
  }
  const at = await instantOf(sql, args);
  await carryOut(sql, machine, letGo(before, at), at, args);
  await recordAction(sql, args.action, { target: `machine:${machine.id}`, details: { name } });
  return { ok: true };
}

/** The machine's guard says something else than before. */
export async function hearMachineGuard(
  sql: Sql,
  args: Cause & { machine_id: string; guard: ReclaimGuard | null },
): Promise<{ changed: number }> {
  const machine = await lock(sql, args.machine_id);
  if (machine === undefined) return { changed: 0 };
  const at = await instantOf(sql, args);
  const advanced = hearGuard(parseReclaim(machine.reclaim), args.guard, at);
  return { changed: await carryOut(sql, machine, advanced, at, args) };
}

/** Time has passed. What turned up there meanwhile, although it is held, is stopped as well. */
export async function advanceReclaim(
  sql: Sql,
  args: Cause & { machine_id: string },
): Promise<{ changed: number }> {
  const machine = await lock(sql, args.machine_id);
  if (machine === undefined) return { changed: 0 };
  const at = await instantOf(sql, args);
  const advanced = advance(parseReclaim(machine.reclaim), at);
  return { changed: await carryOut(sql, machine, advanced, at, args) };
}

export type ReclaimedRow = Row & {
  id: string;
  reclaim: string;
  /** Runs there of those who get nothing new on it. */
  concerned: number;
};

/** A page of machines that somebody wants back, now or later. */
export const listReclaims: Query<{ after: string; limit: number }, ReclaimedRow[]> = (sql, args) =>
  sql.all<ReclaimedRow>(
    `select m.id, m.reclaim,
       (select cast(count(*) as bigint) from runs r join workloads w on w.id = r.workload_id
        where r.machine_id = m.id and r.removed_at is null and r.ended_at is null
          and r.wanted = 'run' and w.state in ('provisioning', 'running')
          and (w.tenant_id <> m.tenant_id or m.reclaim_bars = 'all')) as concerned
     from machines m where m.reclaim <> '' and m.id > $1 order by m.id limit $2`,
    [args.after, args.limit],
  );

function lock(sql: Sql, machine_id: string): Promise<MachineRow | undefined> {
  return sql.get<MachineRow>(
    `select id, name, tenant_id, reclaim, removed_at from machines where id = $1 ${sql.forUpdate}`,
    [machine_id],
  );
}

async function lockOwn(
  sql: Sql,
  { machine_id, tenant_id }: { machine_id: string; tenant_id: string },
): Promise<MachineRow | undefined> {
  const machine = await lock(sql, machine_id);
  const is_own = machine?.tenant_id === tenant_id && machine.removed_at === null;
  return is_own ? machine : undefined;
}

async function instantOf(sql: Sql, cause: Cause): Promise<ReclaimInstant> {
  return { now: cause.now, steady: await steadyOf(sql, cause) };
}

/** Writes down how it stands now, and does what follows; returns how much changed. */
async function carryOut(
  sql: Sql,
  machine: MachineRow,
  { after, steps }: Advanced,
  at: ReclaimInstant,
  cause: Cause,
): Promise<number> {
  const text = after === null ? '' : JSON.stringify(after);
  let changed = text === machine.reclaim ? 0 : 1;
  if (changed > 0) {
    const bars = after === null || after.phase === 'idle' ? '' : after.scope;
    // Admission looks anew where a generation has risen, pages where a revision has.
    await sql.run(
      `update machines set reclaim = $2, reclaim_bars = $3, generation = generation + 1,
         inventory_revision = inventory_revision + 1
       where id = $1`,
      [machine.id, text, bars],
    );
  }
  const before = parseReclaim(machine.reclaim);
  const held: ReclaimStep[] = after?.phase === 'held' ? ['take'] : [];
  for (const step of new Set([...steps, ...held])) {
    changed += await doStep(sql, step, { machine, before, after, at }, cause);
  }
  return changed;
}

type Facts = {
  machine: MachineRow;
  before: Reclaim | null;
  after: Reclaim | null;
  at: ReclaimInstant;
};

async function doStep(
  sql: Sql,
  step: ReclaimStep,
  { machine, before, after, at }: Facts,
  cause: Cause,
): Promise<number> {
  if (step === 'release') return resumeOf(sql, machine.id, cause);
  const tell = (scope: ReclaimAsk['scope'], code: ReasonCode, details: Details) =>
    tellConcerned(sql, machine, scope, { code, details }, cause);
  if (step === 'called_off') {
    const scope = before?.ask?.scope ?? before?.scope ?? 'guests';
    await tell(scope, 'reclaim_called_off', {});
  }
  if (after === null) return 0;
  const { scope, why, due, ask } = after;
  if (step === 'take') return preemptConcerned(sql, machine, scope, why, cause);
  if (step === 'announce') {
    const left = formatDuration(due - at.steady);
    await tell(scope, 'reclaim_soon', { left, why: whyPhrase(why) });
  }
  if (step === 'planned' && ask !== null) {
    const grace = ask.grace_ms === 0 ? 'no time' : formatDuration(ask.grace_ms);
    await tell(ask.scope, 'reclaim_planned', { at: momentOf(ask, at), grace });
  }
  return 0;
}

/** "18:00 UTC, in 2h 0m". */
function momentOf({ start }: ReclaimAsk, { now, steady }: ReclaimInstant): string {
  const in_ms = start.when === 'at' ? start.at - now : start.when === 'in' ? start.due - steady : 0;
  const time = new Date(now + in_ms).toISOString();
  return `${time.slice(0, 10)} ${time.slice(11, 16)} UTC, in ${formatDuration(in_ms)}`;
}
