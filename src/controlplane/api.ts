/**
 * The API: the contract's routes with their handlers, behind one authentication, one validation and
 * one shape of error.
 *
 * Invariants: the authorisation row of a route is checked before its input is looked at; every
 * error is an EinsoraError on the wire, whatever was thrown; an unexpected one is logged with its
 * request's id and tells the caller nothing else.
 */
import { OpenAPIHono, type RouteConfig } from '@hono/zod-openapi';
import type { Context, Handler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import type { AuthRow } from '../contract/auth.ts';
import { EinsoraError, noSuchPath } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import { type RouteName, routes } from '../contract/routes.ts';
import { formatBytes } from '../core/format.ts';
import { describeError, type Log } from '../lib/log.ts';
import { noteAnswer, noteRefusal, targetOf } from './activity.ts';
import type { ApiDeps } from './api-deps.ts';
import { judgePrincipal } from './auth/authorise.ts';
import {
  createTouch,
  isSameOrigin,
  type Principal,
  principalOf,
  type Touch,
} from './auth/principal.ts';
import { checkInput, checksOf, textOf } from './input.ts';
import { refuseNul } from './nul.ts';
import { accessRoutes } from './routes/access.ts';
import { accountRoutes } from './routes/accounts.ts';
import { tenantRoutes } from './routes/accounts-tenants.ts';
import { sessionRoutes, tokenRoutes } from './routes/accounts-tokens.ts';
import { invitationRoutes, userRoutes } from './routes/accounts-users.ts';
import { activityRoutes } from './routes/activity.ts';
import { catalogRoutes } from './routes/catalog.ts';
import { endpointSharingRoutes, modelKeyRoutes } from './routes/endpoint-sharing.ts';
import { eventRoutes } from './routes/events.ts';
import { exportRoutes } from './routes/export.ts';
import { fallbackRoutes } from './routes/fallback.ts';
import { fileRoutes } from './routes/files.ts';
import { gatewayRoutes } from './routes/gateway.ts';
import { keyRoutes } from './routes/keys.ts';
import { machineChangeRoutes } from './routes/machine-changes.ts';
import { machineRoutes } from './routes/machines.ts';
import { modelRouteRoutes } from './routes/model-routes.ts';
import { modelRoutes } from './routes/models.ts';
import { quotaRoutes } from './routes/quotas.ts';
import { reclaimRoutes } from './routes/reclaim.ts';
import { regionRoutes } from './routes/regions.ts';
import { replicaRoutes } from './routes/replicas.ts';
import { requestLimitRoutes } from './routes/request-limits.ts';
import { requestUsageRoutes } from './routes/request-usage.ts';
import { secretRoutes } from './routes/secrets.ts';
import { sshRoutes } from './routes/ssh.ts';
import { statsRoutes } from './routes/stats.ts';
import { usageRoutes } from './routes/usage.ts';
import { workloadRoutes } from './routes/workloads.ts';
import { storeRefusal } from './store-refusal.ts';

/** What the server hands to the API with each request. */
export type RequestFacts = {
  request_id: string;
  log: Log;
  /** Ends the connection, whatever is still to be sent. */
  hangUp?: () => void;
  /** No more of the body than its limit can come. */
  is_bounded?: boolean;
  /** The body, where it was read already. */
  body?: Buffer;
  /** The answer is held open: it no longer counts among the requests that are served at once. */
  holds?: () => void;
};
export type ApiEnv = {
  Bindings: { facts: RequestFacts };
  Variables: { principal: Principal; route: RouteName; target: string | null };
};
export type Api = OpenAPIHono<ApiEnv>;

export function createApi(deps: ApiDeps): Api {
  const touch = createTouch(deps.store);
  const app = openApp();
  // The server bounds bodies as it reads them; what comes another way is bounded here.
  const bounded = bodyLimit({ maxSize: limits.api_body_bytes, onError: tooLarge });
  app.use((c, next) => (c.env.facts.is_bounded ? next() : bounded(c, next)));
  for (const name of Object.keys(routes) as RouteName[]) {
    const route = routes[name];
    const checks = checksOf(route);
    app.on(route.method.toUpperCase(), route.getRoutingPath(), async (c, next) => {
      c.set('route', name);
      c.set('target', targetOf(c.req.param()));
      await authorise({ ...deps, touch }, c, route.auth);
      const text = await textOf(c);
      refuseNul(c.req.url, text);
      checkInput(c, checks, text);
      await next();
      if (c.error === undefined) noteAnswer(deps, c);
    });
  }
  accountRoutes(app, deps);
  userRoutes(app, deps);
  tenantRoutes(app, deps);
  invitationRoutes(app, deps);
  tokenRoutes(app, deps);
  sessionRoutes(app, deps);
  workloadRoutes(app, deps);
  statsRoutes(app, deps);
  fallbackRoutes(app, deps);
  replicaRoutes(app, deps);
  modelRouteRoutes(app, deps);
  accessRoutes(app, deps);
  sshRoutes(app, deps);
  fileRoutes(app, deps);
  eventRoutes(app, deps);
  keyRoutes(app, deps);
  endpointSharingRoutes(app, deps);
  modelKeyRoutes(app, deps);
  machineRoutes(app, deps);
  catalogRoutes(app, deps);
  regionRoutes(app, deps);
  machineChangeRoutes(app, deps);
  reclaimRoutes(app, deps);
  modelRoutes(app, deps);
  secretRoutes(app, deps);
  quotaRoutes(app, deps);
  requestLimitRoutes(app, deps);
  usageRoutes(app, deps);
  requestUsageRoutes(app, deps);
  gatewayRoutes(app, deps);
  exportRoutes(app, deps);
  activityRoutes(app, deps);
  app.notFound((c) => {
    const allow = methodsOf(c.req.path);
    if (allow.length === 0) return refuse(c, noSuchPath());
    return refuse(c, new EinsoraError('method_not_allowed'), { allow: allow.join(', ') });
  });
  app.onError((thrown, c) => {
    const error = asEinsoraError(thrown, c, deps);
    noteRefusal(deps, c, error);
    return refuse(c, error);
  });
  return app;
}

/** Input is checked for all routes alike (ADR-0072): of a route only the handler is added. */
function openApp(): Api {
  const app: Api = new OpenAPIHono<ApiEnv>();
  const addHandler = (route: RouteConfig & { getRoutingPath(): string }, handler: Handler) => {
    app.openAPIRegistry.registerPath(route);
    return app.on(route.method.toUpperCase(), route.getRoutingPath(), handler);
  };
  app.openapi = addHandler as Api['openapi'];
  return app;
}

type AuthDeps = Pick<ApiDeps, 'store' | 'clock' | 'cookieName'> & { touch: Touch };

async function authorise(deps: AuthDeps, c: Context<ApiEnv>, row: AuthRow): Promise<void> {
  if (row.who === 'anyone') return;
  if (row.who === 'endpoint-key') throw noSuchPath();
  const headers = { get: (name: string) => c.req.header(name) };
  const principal = await principalOf(deps, headers, deps.cookieName());
  if (principal === null) throw new EinsoraError('sign_in_required');
  c.set('principal', principal); // before it is judged: a refusal of somebody known is recorded
  const writes = c.req.method !== 'GET' && c.req.method !== 'HEAD';
  if (principal.via === 'session' && writes) {
    if (!isSameOrigin(headers, new URL(c.req.url).origin)) throw new EinsoraError('cross_site');
  }
  judgePrincipal(principal, row, c.req.method);
  c.env.facts.log = c.env.facts.log.child({
    tenant: principal.tenant,
    subject: principal.user_name,
  });
}

function tooLarge(): never {
  throw new EinsoraError('body_too_large', { limit: formatBytes(limits.api_body_bytes) });
}

const paths = Object.values(routes).map((route) => ({
  method: route.method.toUpperCase(),
  pattern: new RegExp(`^${route.path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
}));

/** The methods of a path of the API; none where it is no path of it. */
function methodsOf(path: string): string[] {
  return paths.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
}

function refuse(
  c: Context<ApiEnv>,
  error: EinsoraError,
  more: Record<string, string> = {},
): Response {
  const headers: Record<string, string> = {
    'content-type': 'application/json; charset=utf-8',
    ...more,
  };
  if (error.status === 429 || error.status === 503) {
    headers['retry-after'] = String(error.details.retry_after_s ?? 1);
  }
  if (error.status === 401) headers['www-authenticate'] = 'Bearer';
  const body = JSON.stringify(error.body(c.env.facts.request_id));
  return new Response(body, { status: error.status, headers });
}

function asEinsoraError(error: unknown, c: Context<ApiEnv>, deps: ApiDeps): EinsoraError {
  if (error instanceof EinsoraError) return error;
  const { log, request_id } = c.env.facts;
  log.error({ error: describeError(error) }, 'a request failed');
  return storeRefusal(error, deps.data_dir) ?? new EinsoraError('internal', { request_id });
}
