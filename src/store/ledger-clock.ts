/**
 * The steady clock of the ledger: milliseconds that only rise, whatever is done to the wall clock
 * (ADR-0029). Within one process of the control plane they follow its monotonic clock; from one
 * process to the next, the wall clock since the last look, never backwards.
 *
 * Invariants: a transaction brings its own monotonic instant (`Cause.mono`), so that nothing here
 * asks for the time; where none is given (tests of other things) the wall clock since the last look
 * stands in. Where this machine sleeps, what its monotonic clock does not count is not counted.
 */
import type { Row, Sql } from './sql.ts';

/** When something happens, by both clocks of the control plane. */
export type Instant = { now: number; mono?: number };

type ClockRow = Row & {
  steady: number;
  mono: number;
  wall: number;
  seen_steady: number;
  seen_wall: number;
};

/** What the wall clock did by itself since the last look; 0 where it did nothing strange. */
export type Watched = { stepped_ms: number };

/** Less than this is drift, rounding, or a busy machine. */
export const step_noticed_ms = 2000;

/** The control plane begins: its monotonic clock counts from anew. */
export async function startLedgerClock(
  sql: Sql,
  args: { now: number; mono: number },
): Promise<Watched> {
  const mono = Math.floor(args.mono);
  const row = await readClock(sql);
  if (row === undefined) {
    await insertClock(sql, args.now, mono);
    return { stepped_ms: 0 };
  }
  const passed = args.now - row.seen_wall;
  const steady = row.seen_steady + Math.max(0, passed);
  await sql.run(
    `update ledger_clock set steady = $1, mono = $2, wall = $3, seen_steady = $1, seen_wall = $3`,
    [steady, mono, args.now],
  );
  return { stepped_ms: passed < -step_noticed_ms ? passed : 0 };
}

/** Remembers how late it is, so that a restart loses no more than what passed since. */
export async function watchLedgerClock(
  sql: Sql,
  at: Instant,
): Promise<Watched & { steady: number }> {
  const row = await readClock(sql);
  if (row === undefined) return { stepped_ms: 0, steady: await beginClock(sql, at) };
  const steady = steadyFrom(row, at);
  await sql.run('update ledger_clock set seen_steady = $1, seen_wall = $2', [steady, at.now]);
  const stepped_ms = at.now - row.seen_wall - (steady - row.seen_steady);
  return { stepped_ms: Math.abs(stepped_ms) > step_noticed_ms ? stepped_ms : 0, steady };
}

/** An instant on the steady clock. */
export async function steadyOf(sql: Sql, at: Instant): Promise<number> {
  const row = await readClock(sql);
  return row === undefined ? beginClock(sql, at) : steadyFrom(row, at);
}

/** The same for a reader, who cannot begin a clock. */
export async function readSteady(sql: Sql, at: Instant): Promise<number> {
  const row = await readClock(sql);
  return row === undefined ? at.now : steadyFrom(row, at);
}

function steadyFrom(row: ClockRow, at: Instant): number {
  if (at.mono === undefined) return row.seen_steady + Math.max(0, at.now - row.seen_wall);
  return row.steady + Math.max(0, Math.floor(at.mono) - row.mono);
}

function readClock(sql: Sql): Promise<ClockRow | undefined> {
  return sql.get<ClockRow>('select * from ledger_clock');
}

/** The first look at it. */
async function beginClock(sql: Sql, at: Instant): Promise<number> {
  if (at.mono !== undefined) await insertClock(sql, at.now, Math.floor(at.mono));
  return at.now;
}

async function insertClock(sql: Sql, now: number, mono: number): Promise<void> {
  await sql.run(
    `insert into ledger_clock (id, steady, mono, wall, seen_steady, seen_wall)
     values (1, $1, $2, $1, $1, $1) on conflict (id) do nothing`,
    [now, mono],
  );
}
