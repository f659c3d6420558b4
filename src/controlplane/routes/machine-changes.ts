/**
 * What the people of a machine's owner do about it: share, give, drain, rename, limit, fence,
 * remove (ADR-0056).
 *
 * Invariants: another tenant's machine answers as one that is not there, but that an operator may
 * take back what is shared; who is named in a refusal is of the asker's own tenant.
 */
import type { Context } from 'hono';
import { hasRole } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import type { RemoveResult } from '../../store/machine-changes.ts';
import { findMachine, findShared } from '../../store/machines.ts';
import type { MachineChange, ShareResult } from '../../store/sharing.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { ownMachine } from './machines.ts';

export function machineChangeRoutes(app: Api, deps: ApiDeps): void {
  sharingRoutes(app, deps);
  drainRoutes(app, deps);
  namingRoutes(app, deps);
  fenceRoute(app, deps);
  removeRoute(app, deps);
}

function sharingRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.shareMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const { sharing = null, invite = [], uninvite = [] } = c.req.valid('json');
    const { tenant_id, role } = c.get('principal');
    const is_operator = hasRole(role, 'operator');
    const own = await ownMachine(deps, tenant_id, asked);
    const id = own ?? (is_operator ? await sharedMachine(deps, asked) : null);
    if (id === null) throw notThere(asked);
    const args = {
      ...{ ...changeOf(deps, c, id), sharing, invite, uninvite },
      ...{ is_operator: is_operator ? 1 : 0, guest_limit: limits.machine_guests },
    };
    const done = await deps.store.transact('shareMachine', args);
    if (!done.ok) throw await unshared(deps, asked, id, done);
    return c.json(await changed(deps, tenant_id, id, { stopped: done.parked }), 200);
  });

  app.openapi(routes.giveMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const { to } = c.req.valid('json');
    const { tenant_id } = c.get('principal');
    const id = await found(deps, tenant_id, asked);
    const done = await deps.store.transact('giveMachine', { ...changeOf(deps, c, id), to });
    if (!done.ok) throw done.tenant === null ? notThere(asked) : noTenant(done.tenant);
    return c.json(await changed(deps, tenant_id, id, { stopped: done.parked }), 200);
  });
}

/** What somebody else shares: by its id, or by a name that only one such machine has. */
async function sharedMachine({ store }: ApiDeps, asked: string): Promise<string | null> {
  const rows = await store.read(findShared, { machine: asked });
  const byId = rows.find(({ id }) => id === asked);
  return byId?.id ?? (rows.length === 1 ? (rows[0]?.id ?? null) : null);
}

async function unshared(
  { store }: ApiDeps,
  asked: string,
  machine_id: string,
  refused: Extract<ShareResult, { ok: false }>,
): Promise<EinsoraError> {
  if (refused.code === 'not_found') {
    return refused.tenant === null ? notThere(asked) : noTenant(refused.tenant);
  }
  const row = await store.read(findMachine, { machine_id });
  const details = { limit: limits.machine_guests, what: 'guests of this machine' };
  return new EinsoraError(refused.code, { machine: row?.name ?? asked, ...details });
}

function drainRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.drainMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const { stop = false } = c.req.valid('json');
    const { tenant_id } = c.get('principal');
    const id = await found(deps, tenant_id, asked);
    const args = { ...changeOf(deps, c, id), drained: 1, stop: stop ? 1 : 0 };
    const done = await deps.store.transact('drainMachine', args);
    if (!done.ok) throw notThere(asked);
    return c.json(await changed(deps, tenant_id, id, { stopped: done.parked }), 200);
  });

  app.openapi(routes.undrainMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const { tenant_id } = c.get('principal');
    const id = await found(deps, tenant_id, asked);
    const args = { ...changeOf(deps, c, id), drained: 0, stop: 0 };
    const done = await deps.store.transact('drainMachine', args);
    if (!done.ok) throw notThere(asked);
    return c.json(await changed(deps, tenant_id, id), 200);
  });
}

function namingRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.renameMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const { name } = c.req.valid('json');
    const { tenant_id } = c.get('principal');
    const id = await found(deps, tenant_id, asked);
    const done = await deps.store.transact('renameMachine', { ...changeOf(deps, c, id), name });
    if (!done.ok && done.code === 'not_found') throw notThere(asked);
    if (!done.ok) throw new EinsoraError(done.code, { name });
    return c.json(await changed(deps, tenant_id, id), 200);
  });

  app.openapi(routes.limitMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const { cpu_millis, memory_bytes, disk_bytes } = c.req.valid('json');
    const { tenant_id } = c.get('principal');
    const id = await found(deps, tenant_id, asked);
    const caps = {
      ...(cpu_millis === undefined ? {} : { cpu_millis }),
      ...(memory_bytes === undefined ? {} : { memory_bytes }),
      ...(disk_bytes === undefined ? {} : { disk_bytes }),
    };
    const done = await deps.store.transact('limitMachine', { ...changeOf(deps, c, id), caps });
    if (!done.ok) throw notThere(asked);
    return c.json(await changed(deps, tenant_id, id), 200);
  });
}

function fenceRoute(app: Api, deps: ApiDeps): void {
  app.openapi(routes.fenceMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const { confirm } = c.req.valid('json');
    const { tenant_id } = c.get('principal');
    const id = await found(deps, tenant_id, asked);
    const row = await deps.store.read(findMachine, { machine_id: id });
    if (row === undefined) throw notThere(asked);
    if (confirm !== row.name) {
      throw new EinsoraError('bad_request', { problem: `confirm: its name is ${row.name}` });
    }
    const seconds = limits.machine_lease_ms / 1000;
    const still_heard = () =>
      new EinsoraError('machine_still_heard', { machine: row.name, seconds });
    if (deps.presence.isOnline(id)) throw still_heard();
    const args = { ...changeOf(deps, c, id), agent_epoch: row.agent_epoch };
    const done = await deps.store.transact('fenceMachine', args);
    if (done.outcome === 'not_found') throw notThere(asked);
    if (done.outcome === 'spoke_since') throw still_heard();
    return c.json(await changed(deps, tenant_id, id, { stopped: done.ended }), 200);
  });
}

function removeRoute(app: Api, deps: ApiDeps): void {
  app.openapi(routes.removeMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const forget_homes = c.req.valid('query').forget_homes === 'true' ? 1 : 0;
    const { tenant_id } = c.get('principal');
    const id = await found(deps, tenant_id, asked);
    const args = { ...changeOf(deps, c, id), forget_homes };
    const done = await deps.store.transact('removeMachine', args);
    if (!done.ok) throw inTheWay(asked, done);
    return c.json(await changed(deps, tenant_id, id, { forgotten: done.forgotten }), 200);
  });
}

/** Names told at once; beyond them it is said how many more there are. */
const names_told = 5;

function inTheWay(asked: string, refused: Extract<RemoveResult, { ok: false }>): EinsoraError {
  if (refused.code === 'not_found') return notThere(asked);
  const { own, others, machine } = refused;
  const more = own.length - names_told;
  const parts = [
    ...own.slice(0, names_told),
    ...(more > 0 ? [`${more} more of yours`] : []),
    ...(others > 0 ? [`${others} of others`] : []),
  ];
  const last = parts.pop() ?? '';
  const what = parts.length === 0 ? last : `${parts.join(', ')} and ${last}`;
  return new EinsoraError(refused.code, { machine, what });
}

async function found(deps: ApiDeps, tenant_id: string, asked: string): Promise<string> {
  const id = await ownMachine(deps, tenant_id, asked);
  if (id === null) throw notThere(asked);
  return id;
}

function notThere(asked: string): EinsoraError {
  return new EinsoraError('not_found', { what: `machine ${asked}`, list: 'machines' });
}

function noTenant(slug: string): EinsoraError {
  return new EinsoraError('not_found', { what: `tenant ${slug}`, list: 'tenants ls' });
}

function changeOf(deps: ApiDeps, c: Context<ApiEnv>, machine_id: string): MachineChange {
  const { tenant_id, user_name } = c.get('principal');
  const action = actionOf(deps, c);
  return {
    ...{ machine_id, tenant_id, action, now: action.now, mono: deps.clock.monotonic() },
    ...{ actor: `user:${user_name}`, request_id: c.env.facts.request_id },
  };
}

/** The machine as whoever asked sees it now; admission and agents hear of it at once. */
async function changed(
  deps: ApiDeps,
  tenant_id: string,
  machine_id: string,
  { stopped = 0, forgotten = 0 } = {},
) {
  deps.wakeController();
  deps.wakeAgents();
  const machine = (await deps.machines.list(tenant_id)).find(({ id }) => id === machine_id) ?? null;
  return { machine, stopped, forgotten };
}
