/**
 * Making room: what one's own idle endpoints hold, and stopping some of them for what waits
 * (ADR-0059).
 *
 * Invariants: all of what was chosen is stopped or nothing; only endpoints of the tenant (of the
 * creator, where one is given) that run, in the run that was looked at; their intent stays running
 * and `park_cause` says idle, so whoever asks for one wakes it.
 */
import { formatDuration } from '../core/format.ts';
import { type Action, recordAction } from './activity.ts';
import { type Cause, lockWorkload, noteWorkload, type WorkloadRow } from './events.ts';
import { moveWorkload } from './moves.ts';
import type { Query, Row, Sql } from './sql.ts';
import { lockNamed, wantRuns } from './workloads.ts';

export type HeldByEndpoint = Row & {
  workload_id: string;
  name: string;
  run_epoch: number;
  machine_id: string;
  device: string;
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
};

/** What running endpoints of a tenant hold; of one creator alone where one is given. */
export const listHeldByEndpoints: Query<
  { tenant_id: string; creator_id: string | null; limit: number },
  HeldByEndpoint[]
> = (sql, args) =>
  sql.all<HeldByEndpoint>(
    `select w.id as workload_id, w.name, w.run_epoch, h.machine_id, h.device, h.cpu_millis,
       h.memory_bytes, h.disk_bytes
     from workloads w join holds h on h.workload_id = w.id and h.released_at is null
     where w.tenant_id = $1 and w.kind = 'endpoint' and w.state = 'running'
       and w.intent = 'running' and ($2 = '' or w.creator_id = $2)
     order by w.id, h.replica, h.run_epoch, h.device limit $3`,
    [args.tenant_id, args.creator_id ?? '', args.limit],
  );

export type MakeRoomArgs = Cause & {
  tenant_id: string;
  /** What waits: id or name. */
  workload: string;
  /** Who may have stopped what: of this creator alone; null: of the tenant. */
  creator_id: string | null;
  /** What to stop, as it was judged to be idle. */
  stop: { workload_id: string; run_epoch: number; idle_ms: number }[];
  action?: Action;
};

export type MakeRoomResult =
  | { ok: true; row: WorkloadRow; stopped: { id: string; name: string }[] }
  | { ok: false; code: 'not_found' }
  | { ok: false; code: 'not_waiting' | 'room_changed'; details: { name: string; state: string } };

export async function makeRoom(sql: Sql, args: MakeRoomArgs): Promise<MakeRoomResult> {
  const row = await lockNamed(sql, args);
  if (row === undefined) return { ok: false, code: 'not_found' };
  const refuse = (code: 'not_waiting' | 'room_changed', { name, state }: WorkloadRow) => {
    return { ok: false as const, code, details: { name, state } };
  };
  if (row.state !== 'pending' && row.state !== 'queued') return refuse('not_waiting', row);
  const idlers: { row: WorkloadRow; idle_ms: number }[] = [];
  // Always in this order, so that two who make room never wait for each other.
  for (const one of args.stop.toSorted((a, b) => (a.workload_id < b.workload_id ? -1 : 1))) {
    const idler = await lockWorkload(sql, one.workload_id);
    if (idler === undefined) return { ok: false, code: 'not_found' };
    if (!isAsJudged(idler, one, args)) return refuse('room_changed', idler);
    idlers.push({ row: idler, idle_ms: one.idle_ms });
  }
  for (const { row: idler, idle_ms } of idlers) await stopFor(sql, row, idler, idle_ms, args);
  const stopped = idlers.map(({ row: { id, name } }) => ({ id, name }));
  const parked = stopped.map(({ name }) => name).join(', ');
  const who = args.actor.replace(/^user:/, '');
  const note = { code: 'room_made', details: { who, parked } } as const;
  // Where nothing would do, the timeline has nothing to tell.
  const noted = stopped.length === 0 ? row : await noteWorkload(sql, row, note, args);
  await recordAction(sql, args.action, {
    target: `workload:${row.id}`,
    details: { name: row.name, parked },
  });
  return { ok: true, row: noted, stopped };
}

function isAsJudged(
  row: WorkloadRow,
  { run_epoch }: { run_epoch: number },
  { tenant_id, creator_id }: MakeRoomArgs,
): boolean {
  const is_own = row.tenant_id === tenant_id && (creator_id ?? row.creator_id) === row.creator_id;
  const runs = row.state === 'running' && row.intent === 'running' && row.run_epoch === run_epoch;
  return is_own && runs && row.kind === 'endpoint';
}

async function stopFor(
  sql: Sql,
  { name: room_for }: WorkloadRow,
  idler: WorkloadRow,
  idle_ms: number,
  cause: Cause,
): Promise<void> {
  const details = { room_for, idle: formatDuration(idle_ms) };
  const why = { code: 'parked_for_room', details } as const;
  const set = { park_cause: 'idle' };
  const moved = await moveWorkload(sql, idler, { event: 'stop', set, ...why }, cause);
  if (moved === null) throw new Error(`stop was refused in ${idler.state}`);
  const open = await wantRuns(sql, idler.id, 'park');
  if (open === 0) await moveWorkload(sql, moved, { event: 'parked', ...why }, cause);
}
