/**
 * Making room: whether idle endpoints of the asker hold what a workload waits for, and stopping
 * them in one step (ADR-0059).
 *
 * Invariants: chosen by core/make-room.ts, carried out by one transaction that checks it again; a
 * member's own endpoints alone, a tenant's for its admins; what is in use, or not known to be
 * unused, is never chosen; whoever asks for one while it is being stopped wakes it at once.
 */
import { EinsoraError } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import type { RoomOffer } from '../contract/make-room.ts';
import type { Workload } from '../contract/workloads.ts';
import { parseAsk } from '../core/ask.ts';
import { chooseToStop, type Idler } from '../core/make-room.ts';
import { place } from '../core/placement.ts';
import { hasRole, type Role } from '../core/roles.ts';
import { type MachineView, readSpec, type WorkloadSpec } from '../core/workload.ts';
import type { Action } from '../store/activity.ts';
import type { WorkloadRow } from '../store/events.ts';
import { type HeldByEndpoint, listHeldByEndpoints } from '../store/make-room.ts';
import type { ApiDeps } from './api-deps.ts';

export type RoomDeps = Pick<ApiDeps, 'store' | 'machines' | 'lastUse' | 'catalogs'>;
export type RoomAsker = { tenant_id: string; user_id: string; role: Role };

/** What would be stopped for it; null where that would not do, or where it need not wait. */
export async function offerRoom(
  deps: RoomDeps,
  spec: WorkloadSpec,
  creator_id: string,
  asker: RoomAsker,
  views?: readonly MachineView[],
): Promise<Idler[] | null> {
  const idlers = await idlersOf(deps, asker);
  if (idlers.length === 0) return null;
  const { tenant_id } = asker;
  const machines = views ?? (await deps.machines.forPlan(tenant_id));
  const catalog = await deps.catalogs.read();
  const wanted = { ask: spec, tenant_id, creator_id, catalog };
  const is_free = place(spec, tenant_id, machines, creator_id, wanted.catalog).chosen !== null;
  return is_free ? null : chooseToStop(wanted, machines, idlers);
}

export function offerView(idlers: Idler[] | null): RoomOffer | null {
  return idlers?.map(({ name, idle_ms }) => ({ name, idle_ms: Math.round(idle_ms) })) ?? null;
}

/** Whose endpoints somebody may have stopped: null for all of their tenant. */
function creatorOf({ role, user_id }: RoomAsker): string | null {
  return hasRole(role, 'tenant-admin') ? null : user_id;
}

async function idlersOf({ store, lastUse }: RoomDeps, asker: RoomAsker): Promise<Idler[]> {
  const rows = await store.read(listHeldByEndpoints, {
    ...{ tenant_id: asker.tenant_id, creator_id: creatorOf(asker) },
    limit: limits.make_room_rows,
  });
  const idlers = new Map<string, Idler>();
  for (const row of rows) {
    const idler = idlers.get(row.workload_id) ?? idlerOf(row, lastUse);
    idlers.set(row.workload_id, idler);
    idler.holds.push(heldOf(row));
  }
  return [...idlers.values()].filter(({ idle_ms }) => idle_ms >= limits.make_room_idle_ms);
}

function idlerOf(row: HeldByEndpoint, lastUse: RoomDeps['lastUse']): Idler {
  const { workload_id, name, run_epoch } = row;
  const { idle_ms } = lastUse.of(workload_id, run_epoch);
  return { workload_id, name, run_epoch, idle_ms, holds: [] };
}

function heldOf({ machine_id, device, cpu_millis, memory_bytes, disk_bytes }: HeldByEndpoint) {
  return { machine_id, device, cpu_millis, memory_bytes, disk_bytes };
}

/** One that waits, with what its asker could stop for it: that is the command that helps then. */
export async function withRoomOffer(
  deps: RoomDeps,
  view: Workload,
  row: WorkloadRow,
  asker: RoomAsker,
): Promise<Workload> {
  if (row.state !== 'queued' || !hasRole(asker.role, 'member')) return view;
  const make_room = offerView(await offerRoom(deps, askedBy(row), row.creator_id, asker));
  if (make_room === null || view.reason === null) return view;
  return {
    ...view,
    make_room,
    reason: { ...view.reason, fix: `bin/einsora make-room ${row.name}` },
  };
}

/** Where its home is stands in the ask that the store keeps. */
function askedBy(row: WorkloadRow): WorkloadSpec {
  return { ...readSpec(row.spec), ...(row.ask === '' ? {} : parseAsk(row.ask)) };
}

/** Stops what is in the way of one that waits; what was stopped, none where that would not do. */
export async function makeRoomFor(
  deps: ApiDeps,
  row: WorkloadRow,
  asker: RoomAsker & { user_name: string },
  how: { request_id: string; action: Action },
): Promise<{ id: string; name: string }[]> {
  const { store, clock, lastUse } = deps;
  const { id: workload, name, state, tenant_id } = row;
  if (state !== 'pending' && state !== 'queued') {
    throw new EinsoraError('not_waiting', { name, state });
  }
  const chosen = (await offerRoom(deps, askedBy(row), row.creator_id, asker)) ?? [];
  const before = chosen.map((one) => lastUse.uses(one.workload_id));
  const done = await store.transact('makeRoom', {
    ...{ tenant_id, workload, creator_id: creatorOf(asker), stop: chosen.map(toStop) },
    ...{ now: clock.now(), mono: clock.monotonic(), actor: `user:${asker.user_name}` },
    ...how,
  });
  if (!done.ok) {
    const details = 'details' in done ? done.details : { what: `workload ${name}`, name };
    throw new EinsoraError(done.code, details);
  }
  deps.wakeAgents();
  for (const [index, { workload_id }] of chosen.entries()) {
    if (lastUse.uses(workload_id) === before[index]) continue;
    await deps.waker.wake(workload_id, 'a request came while it was being stopped');
  }
  deps.wakeController();
  return done.stopped;
}

function toStop({ workload_id, run_epoch, idle_ms }: Idler) {
  return { workload_id, run_epoch, idle_ms };
}
