/**
 * Which paths the gateway answers, and as what.
 */
import { gatewayPrefixes, gatewayRoutes } from '../contract/routes.ts';
import { type Refusal, refusals } from './errors.ts';
import { api_paths, type GatewayApi, gatewayApis } from './request-record.ts';

const by_path = new Map(gatewayApis.map((api) => [api_paths[api], api]));

/** Null: no engine answers it. */
export function apiOf(path: string): GatewayApi | null {
  return by_path.get(path) ?? null;
}

const models_path = '/v1/models';

/** The one model that is asked about, whose name may have slashes; null: all of them. */
export function modelIn(path: string): string | null {
  const name = path.slice(models_path.length + 1);
  if (name === '') return null;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

const methods = new Map<string, readonly string[]>(
  gatewayRoutes.map(({ path }) => [
    path,
    gatewayRoutes.filter((route) => route.path === path).map((route) => route.method),
  ]),
);

/** Why it is not answered; null where it is. */
export function judgeRoute(method: string, asked: string): Refusal | null {
  const is_model = asked.startsWith(`${models_path}/`) && asked.length > models_path.length + 1;
  const path = is_model ? `${models_path}/{model}` : asked;
  const taken = methods.get(path);
  if (taken === undefined) {
    const reserved = gatewayPrefixes.some((prefix) => path.startsWith(prefix));
    return reserved ? refusals.notServed : refusals.unknownPath;
  }
  if (taken.includes(method)) return null;
  const allowed = taken.join(', ');
  return {
    status: 405,
    message: `This path takes ${allowed} only.`,
    code: 'method_not_allowed',
    headers: { Allow: allowed },
  };
}
