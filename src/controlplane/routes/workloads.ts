/**
 * Workloads: plan, launch, list, show, stop, start, delete, timeline, output.
 */
import type { Context } from 'hono';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { makeId } from '../../core/ids.ts';
import type { WorkloadSpec } from '../../core/workload.ts';
import { digest } from '../../lib/secret.ts';
import { listEvents, type WorkloadRow } from '../../store/events.ts';
import type { IdempotencyKey, Idempotent } from '../../store/idempotency.ts';
import { foreseeRefusal } from '../../store/quotas.ts';
import { findSecret } from '../../store/secrets.ts';
import {
  type ChangeArgs,
  type ChangeResult,
  currentRuns,
  findWorkload,
  type LaunchResult,
  listWorkloads,
} from '../../store/workloads.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { downloadOf } from '../launch-model.ts';
import { completeLaunch } from '../launch-spec.ts';
import { offerRoom, offerView, withRoomOffer } from '../make-room.ts';
import { withReservations } from '../plan-candidates.ts';
import { queueOf } from '../plan-queue.ts';
import { secretNames } from '../request-extras.ts';
import { eventView, planView, workloadView, workloadViews } from '../workload-views.ts';

export function workloadRoutes(app: Api, deps: ApiDeps): void {
  launchRoutes(app, deps);
  changeRoutes(app, deps);
  readRoutes(app, deps);
}

function launchRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.plan, async (c) => {
    const { tenant_id, user_id, role } = c.get('principal');
    const asked = await completeLaunch(deps, tenant_id, c.req.valid('json'));
    const { spec, remote } = asked;
    await checkSecrets(deps, tenant_id, spec);
    const gpu_class = spec.gpu_class ?? '';
    const own = { tenant_id, creator_id: user_id, claims: spec.replicas };
    const claim = { ...spec, gpu_class, ...own };
    const over = await deps.store.read(foreseeRefusal, claim);
    const views = withReservations(await deps.machines.forPlan(tenant_id), deps.queue);
    const catalog = await deps.catalogs.read();
    const plan = planView(asked, tenant_id, views, over, user_id, catalog);
    const asker = { tenant_id, user_id, role };
    const make_room = offerView(await offerRoom(deps, spec, user_id, asker, views));
    const machine_id = plan.chosen?.machine_id ?? null;
    const download = await downloadOf(deps, tenant_id, machine_id, remote);
    const queue = await queueOf(deps, spec, asker);
    return c.json({ ...plan, download, make_room, queue }, 200);
  });

  app.openapi(routes.launch, async (c) => {
    const body = c.req.valid('json');
    const { tenant_id, user_id, user_name } = c.get('principal');
    const { spec, name_is_free } = await completeLaunch(deps, tenant_id, body);
    await checkSecrets(deps, tenant_id, spec);
    const now = deps.clock.now();
    const launched = await deps.store.transact('launchWorkload', {
      id: makeId(now, deps.random.bytes(10)),
      tenant_id,
      creator_id: user_id,
      spec,
      name_is_free,
      actor: `user:${user_name}`,
      request_id: c.env.facts.request_id,
      now,
      idempotency: idempotencyOf(c, body),
      action: actionOf(deps, c),
    });
    const result = unwrap(launched);
    if (!result.ok) throw refused(result, spec.name);
    deps.wakeController();
    return c.json(await workloadView(deps, result.row, c.get('principal')), 201);
  });
}

/** Each stored secret that its variables take has to be there. */
async function checkSecrets(deps: ApiDeps, tenant_id: string, spec: WorkloadSpec): Promise<void> {
  for (const name of secretNames(spec.env)) {
    const found = await deps.store.read(findSecret, { tenant_id, name });
    if (found === undefined) throw new EinsoraError('unknown_secret', { secret: name });
  }
}

function changeRoutes(app: Api, deps: ApiDeps): void {
  const answer = async (c: Context<ApiEnv>, workload: string, done: Idempotent<ChangeResult>) => {
    const result = unwrap(done);
    if (!result.ok) throw refused(result, workload);
    deps.wakeController();
    deps.wakeAgents();
    return workloadView(deps, result.row, c.get('principal'));
  };
  app.openapi(routes.stopWorkload, async (c) => {
    const args = changeArgs(deps, c);
    return c.json(
      await answer(c, args.workload, await deps.store.transact('stopWorkload', args)),
      202,
    );
  });
  app.openapi(routes.startWorkload, async (c) => {
    const args = changeArgs(deps, c);
    return c.json(
      await answer(c, args.workload, await deps.store.transact('startWorkload', args)),
      202,
    );
  });
  app.openapi(routes.deleteWorkload, async (c) => {
    const args = { ...changeArgs(deps, c), idempotency: null };
    return c.json(
      await answer(c, args.workload, await deps.store.transact('deleteWorkload', args)),
      202,
    );
  });
}

function readRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listWorkloads, async (c) => {
    const { cursor, limit = 50, deleted } = c.req.valid('query');
    const rows = await deps.store.read(listWorkloads, {
      tenant_id: c.get('principal').tenant_id,
      before: cursor === undefined ? null : readCursor(cursor),
      limit: limit + 1,
      deleted: deleted === 'true',
    });
    const last = rows.length > limit ? rows[limit - 1] : undefined;
    const next_cursor = last === undefined ? null : `${last.created_at}.${last.id}`;
    const items = await workloadViews(deps, rows.slice(0, limit), c.get('principal'));
    return c.json({ items, next_cursor }, 200);
  });

  app.openapi(routes.showWorkload, async (c) => {
    const row = await found(deps, c);
    const principal = c.get('principal');
    const view = await workloadView(deps, row, principal);
    return c.json(await withRoomOffer(deps, view, row, principal), 200);
  });

  app.openapi(routes.listEvents, async (c) => {
    const row = await found(deps, c);
    const { cursor, limit = limits.page_rows } = c.req.valid('query');
    const after = cursor === undefined ? 0 : readNumber(cursor);
    const rows = await deps.store.read(listEvents, { workload_id: row.id, after, limit });
    const last = rows.at(-1);
    const next_cursor = last === undefined ? (cursor ?? null) : String(last.number);
    return c.json({ items: rows.map((event) => eventView(event, row.name)), next_cursor }, 200);
  });

  app.openapi(routes.readLogs, async (c) => {
    const row = await found(deps, c);
    const { replica } = c.req.valid('query');
    const runs = await deps.store.read(currentRuns, { workload_ids: [row.id] });
    const run = replica === undefined ? runs[0] : runs.find((one) => one.replica === replica);
    if (run === undefined) {
      return c.json({ text: '', next_offset: 0, end: false, run_epoch: row.run_epoch }, 200);
    }
    const { offset = 0 } = c.req.valid('query');
    const chunk = await deps.backend.logs(run.machine_id, run, offset, limits.log_chunk_bytes);
    return c.json({ ...chunk, run_epoch: run.run_epoch }, 200);
  });
}

type Refused = Extract<LaunchResult | ChangeResult, { ok: false }>;

export function refused(result: Refused, name: string): EinsoraError {
  if (result.code === 'quota_exceeded') return new EinsoraError(result.code, result.details);
  const what = result.code === 'not_found' ? `workload ${name}` : name;
  return new EinsoraError(result.code, { what, name });
}

/** The workload that the path names; another tenant's looks like none. */
export async function found(
  deps: ApiDeps,
  c: Context<ApiEnv, '/v1/workloads/:workload'>,
): Promise<WorkloadRow> {
  const workload = c.req.param('workload') ?? '';
  const { tenant_id } = c.get('principal');
  const row = await deps.store.read(findWorkload, { tenant_id, workload });
  if (row === undefined) throw new EinsoraError('not_found', { what: `workload ${workload}` });
  return row;
}

export function idempotencyOf(c: Context<ApiEnv>, body: unknown): IdempotencyKey {
  const key = c.req.header('idempotency-key');
  if (key === undefined) return null;
  const request_hash = digest(JSON.stringify([c.req.method, c.req.path, body]));
  return { principal: c.get('principal').user_id, key, request_hash };
}

export function unwrap<Result>(done: Idempotent<Result>): Result {
  if (done.outcome === 'idempotency_key_reused') throw new EinsoraError('idempotency_key_reused');
  return done.result;
}

export function changeArgs(deps: ApiDeps, c: Context<ApiEnv>): ChangeArgs {
  const { tenant_id, user_name } = c.get('principal');
  return {
    tenant_id,
    workload: c.req.param('workload') ?? '',
    actor: `user:${user_name}`,
    request_id: c.env.facts.request_id,
    now: deps.clock.now(),
    mono: deps.clock.monotonic(),
    idempotency: idempotencyOf(c, null),
    action: actionOf(deps, c),
  };
}

function readCursor(cursor: string): { created_at: number; id: string } {
  const match = /^(\d{1,16})\.([0-9a-z]{26})$/.exec(cursor);
  if (!match?.[1] || !match[2]) throw new EinsoraError('bad_request', { problem: 'cursor' });
  return { created_at: Number(match[1]), id: match[2] };
}

function readNumber(cursor: string): number {
  if (!/^\d{1,15}$/.test(cursor)) throw new EinsoraError('bad_request', { problem: 'cursor' });
  return Number(cursor);
}
