/**
 * Taking a machine back, and letting it go (ADR-0060).
 */
import type { Context } from 'hono';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import type { Machine } from '../../contract/machines.ts';
import type { ReclaimRequest } from '../../contract/reclaim.ts';
import { routes } from '../../contract/routes.ts';
import { guardOf } from '../../core/reclaim.ts';
import type { ReclaimArgs, ReclaimResult } from '../../store/reclaim.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { ownMachine } from './machines.ts';

export function reclaimRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.reclaimMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const machine_id = await found(deps, c, asked);
    const said = deps.presence.guard(machine_id);
    const { user_name } = c.get('principal');
    const result = await deps.store.transact('reclaimMachine', {
      ...causeOf(deps, c),
      ...askOf(c.req.valid('json'), deps.clock.now()),
      ...{ machine_id, by: user_name, guard: said === null ? null : guardOf(said) },
    });
    return c.json(await answer(deps, c, asked, machine_id, result), 200);
  });

  app.openapi(routes.releaseMachine, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const machine_id = await found(deps, c, asked);
    const args = { ...causeOf(deps, c), machine_id };
    const result = await deps.store.transact('releaseMachine', args);
    return c.json(await answer(deps, c, asked, machine_id, result), 200);
  });
}

/** What of a request the store is asked for. Throws where it contradicts itself. */
function askOf(
  { at, in_ms, when_active, grace_ms, until, scope }: ReclaimRequest,
  now: number,
): Pick<ReclaimArgs, 'start' | 'grace_ms' | 'until' | 'scope'> {
  const bad = (problem: string) => new EinsoraError('bad_request', { problem });
  const starts: ReclaimArgs['start'][] = [];
  if (at !== undefined) starts.push({ when: 'at', at });
  if (in_ms !== undefined) starts.push({ when: 'in', in_ms });
  if (when_active === true) starts.push({ when: 'active' });
  const [start = { when: 'now' } as const, ...others] = starts;
  if (others.length > 0) throw bad('at, in_ms and when_active exclude each other');
  if (at !== undefined && at <= now) throw bad('at is in the past');
  const begins = start.when === 'at' ? start.at : start.when === 'in' ? now + start.in_ms : now;
  if (until !== undefined && until <= begins) throw bad('until is before it begins');
  return {
    ...{ start, scope: scope ?? 'guests', until: until ?? null },
    grace_ms: grace_ms ?? limits.reclaim_grace_ms,
  };
}

function causeOf(deps: ApiDeps, c: Context<ApiEnv>) {
  const { tenant_id, user_name } = c.get('principal');
  return {
    ...{ now: deps.clock.now(), mono: deps.clock.monotonic() },
    ...{ actor: `user:${user_name}`, request_id: c.env.facts.request_id },
    ...{ tenant_id, action: actionOf(deps, c) },
  };
}

async function found(deps: ApiDeps, c: Context<ApiEnv>, asked: string): Promise<string> {
  const id = await ownMachine(deps, c.get('principal').tenant_id, asked);
  if (id === null) throw notFound(asked);
  return id;
}

function notFound(asked: string): EinsoraError {
  return new EinsoraError('not_found', { what: `machine ${asked}`, list: 'machines' });
}

async function answer(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  asked: string,
  machine_id: string,
  result: ReclaimResult,
): Promise<Machine> {
  if (!result.ok) {
    throw result.code === 'not_found'
      ? notFound(asked)
      : new EinsoraError(result.code, result.details);
  }
  deps.reclaims.wake();
  deps.wakeController();
  deps.wakeAgents();
  const all = await deps.machines.list(c.get('principal').tenant_id);
  const machine = all.find((one) => one.id === machine_id);
  if (machine === undefined) throw notFound(asked);
  return machine;
}
