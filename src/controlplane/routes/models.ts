/**
 * Model files: listed, pulled, checked, removed. What is asked for is a wish in the store, which
 * the machine's agent carries out and reports.
 */
import type { Context } from 'hono';
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import { findModel } from '../../core/catalog.ts';
import type { MachineView } from '../../core/workload.ts';
import { parseModelName } from '../../models/source-name.ts';
import { modelFileId } from '../../models/store.ts';
import {
  findModelFile,
  listModelFiles,
  type ModelFilePlace,
  type WishArgs,
} from '../../store/model-files.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { modelFileViews } from '../model-file-views.ts';
import { idempotencyOf, unwrap } from './workloads.ts';

export function modelRoutes(app: Api, deps: ApiDeps): void {
  const one = async (tenant_id: string, id: string) => {
    const row = await deps.store.read(findModelFile, { tenant_id, id });
    if (row === undefined)
      throw new EinsoraError('not_found', { what: `model file ${id}`, list: 'models ls' });
    const [view] = await modelFileViews(deps, tenant_id, [row]);
    if (view === undefined) throw new Error('a view of one row is one view');
    return { row, view };
  };
  app.openapi(routes.listModelFiles, async (c) => {
    const { tenant_id } = c.get('principal');
    const { cursor, limit = 100 } = c.req.valid('query');
    const after = cursor === undefined ? null : readCursor(cursor);
    const rows = await deps.store.read(listModelFiles, { tenant_id, after, limit: limit + 1 });
    const last = rows.length > limit ? rows[limit - 1] : undefined;
    const items = await modelFileViews(deps, tenant_id, rows.slice(0, limit));
    return c.json({ items, next_cursor: last === undefined ? null : cursorOf(last) }, 200);
  });

  app.openapi(routes.pullModelFile, async (c) => {
    const body = c.req.valid('json');
    const { tenant_id } = c.get('principal');
    const machine_id = await machineOf(deps, tenant_id, body.machine ?? null);
    const source = await sourceOf(deps, tenant_id, body.model);
    const id = modelFileId(machine_id, tenant_id, source);
    const idempotency = idempotencyOf(c, body);
    await wish(deps, c, { machine_id, id, tenant_id, source, wish: 'fetch', idempotency });
    return c.json((await one(tenant_id, id)).view, 202);
  });

  app.openapi(routes.showModelFile, async (c) => {
    const { tenant_id } = c.get('principal');
    return c.json((await one(tenant_id, c.req.valid('param').model_file)).view, 200);
  });

  app.openapi(routes.validateModelFile, async (c) => {
    const { tenant_id } = c.get('principal');
    const { row } = await one(tenant_id, c.req.valid('param').model_file);
    await wish(deps, c, { ...row, wish: 'check', idempotency: null });
    return c.json((await one(tenant_id, row.id)).view, 202);
  });

  app.openapi(routes.removeModelFile, async (c) => {
    const { tenant_id } = c.get('principal');
    const { row, view } = await one(tenant_id, c.req.valid('param').model_file);
    await wish(deps, c, { ...row, wish: 'remove', idempotency: null });
    return c.json({ ...view, state: 'removing' as const }, 202);
  });
}

async function wish(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  asked: Omit<WishArgs, 'now' | 'action'>,
): Promise<void> {
  const action = actionOf(deps, c);
  const { machine_id, id, tenant_id, source, wish: what, idempotency } = asked;
  const args = { machine_id, id, tenant_id, source, wish: what, idempotency };
  const done = await deps.store.transact('wishModelFile', { ...args, now: action.now, action });
  const result = unwrap(done);
  if (!result.ok && result.code === 'model_in_use') {
    const users = result.users.slice(0, 5).join(' ');
    throw new EinsoraError('model_in_use', { source: result.source, users });
  }
  if (!result.ok)
    throw new EinsoraError('not_found', { what: `model file ${id}`, list: 'models ls' });
  deps.wakeAgents();
}

/** What is pulled, by its pinned name; refused with the reason where it cannot be. */
async function sourceOf(deps: ApiDeps, tenant_id: string, model: string): Promise<string> {
  const name = parseModelName(model);
  if (name.kind === 'catalog' && findModel(name.name) !== null) return name.name;
  const remote = await deps.models.look(tenant_id, model);
  if (remote !== null) return remote.source;
  if (name.kind === 'unsupported') {
    throw new EinsoraError('model_source_unsupported', { scheme: name.scheme });
  }
  if (name.kind === 'invalid') {
    throw new EinsoraError('bad_request', { problem: `model: ${name.problem}` });
  }
  if (name.kind === 'file') {
    throw new EinsoraError('bad_request', { problem: 'a file of the machine needs no fetching' });
  }
  throw new EinsoraError('unknown_model', { model });
}

/** The machine that was named, or the only one there is, of those that the tenant owns. */
async function machineOf(deps: ApiDeps, tenant_id: string, asked: string | null): Promise<string> {
  const owned = (await deps.machines.forPlan(tenant_id)).filter(
    (machine) => machine.owner_tenant_id === tenant_id,
  );
  const named = (machine: MachineView) => machine.id === asked || machine.name === asked;
  const fitting = asked === null ? owned : owned.filter(named);
  const [only] = fitting;
  if (only === undefined) {
    throw new EinsoraError('not_found', {
      what: `machine ${asked ?? 'of yours'}`,
      list: 'machines',
    });
  }
  if (fitting.length === 1) return only.id;
  const names = fitting.map((machine) => (asked === null ? machine.name : machine.id)).join(', ');
  throw new EinsoraError('bad_request', { problem: `machine: say which one of ${names}` });
}

function cursorOf({ machine_id, source, id }: ModelFilePlace): string {
  return Buffer.from(JSON.stringify([machine_id, source, id])).toString('base64url');
}

function readCursor(cursor: string): ModelFilePlace {
  try {
    const place: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    const [machine_id, source, id] = place as unknown[];
    const texts = [machine_id, source, id].filter((text) => typeof text === 'string');
    if (texts.length === 3) return { machine_id, source, id } as ModelFilePlace;
  } catch {
    // Said below.
  }
  throw new EinsoraError('bad_request', { problem: 'cursor' });
}
