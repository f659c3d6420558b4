/**
 * Every route of the API, each with its authorisation row: the one source of validation, OpenAPI
 * and the typed client. A registry: each area has its file in routes/.
 */
import type { AuthRow } from './auth.ts';
import { accessRoutes } from './routes/access.ts';
import { accountRoutes } from './routes/accounts.ts';
import { activityRoutes } from './routes/activity.ts';
import { catalogRoutes } from './routes/catalog.ts';
import { endpointSharingRoutes } from './routes/endpoint-sharing.ts';
import { eventRoutes } from './routes/events.ts';
import { exportRoutes } from './routes/export.ts';
import { fallbackRoutes } from './routes/fallback.ts';
import { fileRoutes } from './routes/files.ts';
import { gatewayViewRoutes } from './routes/gateway.ts';
import { keyRoutes } from './routes/keys.ts';
import { machineRoutes } from './routes/machines.ts';
import { modelRouteRoutes } from './routes/model-routes.ts';
import { modelRoutes } from './routes/models.ts';
import { quotaRoutes } from './routes/quotas.ts';
import { reclaimRoutes } from './routes/reclaim.ts';
import { regionRoutes } from './routes/regions.ts';
import { replicaRoutes } from './routes/replicas.ts';
import { requestLimitRoutes } from './routes/request-limits.ts';
import { secretRoutes } from './routes/secrets.ts';
import { sshRoutes } from './routes/ssh.ts';
import { statsRoutes } from './routes/stats.ts';
import { tokenRoutes } from './routes/tokens.ts';
import { usageRoutes } from './routes/usage.ts';
import { invitationRoutes, tenantRoutes, userRoutes } from './routes/users.ts';
import { workloadRoutes } from './routes/workloads.ts';

export const routes = {
  ...accountRoutes,
  ...userRoutes,
  ...tenantRoutes,
  ...invitationRoutes,
  ...tokenRoutes,
  ...workloadRoutes,
  ...statsRoutes,
  ...fallbackRoutes,
  ...replicaRoutes,
  ...modelRouteRoutes,
  ...accessRoutes,
  ...sshRoutes,
  ...fileRoutes,
  ...eventRoutes,
  ...keyRoutes,
  ...endpointSharingRoutes,
  ...machineRoutes,
  ...catalogRoutes,
  ...regionRoutes,
  ...reclaimRoutes,
  ...modelRoutes,
  ...secretRoutes,
  ...quotaRoutes,
  ...requestLimitRoutes,
  ...usageRoutes,
  ...gatewayViewRoutes,
  ...exportRoutes,
  ...activityRoutes,
} as const;

export type RouteName = keyof typeof routes;

/** Paths of the inference gateway. They take `ept_` keys only and speak OpenAI's shapes. */
export const gatewayRoutes = [
  { method: 'POST', path: '/v1/chat/completions', auth: { who: 'endpoint-key' } },
  { method: 'POST', path: '/v1/completions', auth: { who: 'endpoint-key' } },
  { method: 'POST', path: '/v1/responses', auth: { who: 'endpoint-key' } },
  { method: 'POST', path: '/v1/embeddings', auth: { who: 'endpoint-key' } },
  { method: 'POST', path: '/v1/rerank', auth: { who: 'endpoint-key' } },
  { method: 'GET', path: '/v1/models', auth: { who: 'endpoint-key' } },
  { method: 'GET', path: '/v1/models/{model}', auth: { who: 'endpoint-key' } },
] as const satisfies readonly { method: string; path: string; auth: AuthRow }[];

/** Reserved on the control plane's /v1 for the gateway, served or not yet. */
export const gatewayPrefixes = [
  '/v1/chat/',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/models',
  '/v1/rerank',
  '/v1/images',
  '/v1/files',
  '/v1/audio',
] as const;

/** Whether the gateway answers a path, served or not yet; all others are the API's or a page's. */
export function isGatewayPath(path: string): boolean {
  return gatewayPrefixes.some(
    (prefix) => path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`),
  );
}
