/**
 * The inference gateway: OpenAI's API in front of the engines, on the control plane's /v1.
 *
 * Invariants: only `ept_` keys open it; only the paths of `gatewayRoutes` reach an engine; status
 * and headers are exact until the first byte of an answer; after it, an answer that breaks never
 * looks whole; a client that leaves takes its connection to the engine along. Prompts, answers
 * and keys are never logged: one line per request says who, where, how it ended. Called by the
 * HTTP server for `gatewayPrefixes`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { limits } from '../contract/limits.ts';
import { gatewayPrefixes, gatewayRoutes } from '../contract/routes.ts';
import { runName } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { createLineCap, type LineCap } from '../lib/line-cap.ts';
import { describeError, type Log } from '../lib/log.ts';
import { digest } from '../lib/secret.ts';
import { answerFromEngine } from './answer.ts';
import type { EngineQuestion } from './ask.ts';
import { affinityOf } from './balance/affinity.ts';
import type { Balancer, Outing, OutingEnd } from './balance/balancer.ts';
import {
  type Connections,
  createConnections,
  type Dial,
  type RunConnections,
} from './connections.ts';
import type { Endpoint, FoundEndpoint, Replica } from './endpoint.ts';
import { type Refusal, refusals } from './errors.ts';
import { type Exchange, openExchange, refuse, sendJson } from './exchange.ts';
import { type GatewayKey, isUsable, keyDigestOf } from './key.ts';
import { bodyForEngine, readQuestion } from './question.ts';
import { refusalOfTarget, servedBy } from './target.ts';

export type GatewayOptions = {
  /** The stored key of a digest (`lib/secret`), usable or not. */
  findKey(key_digest: string): Promise<GatewayKey | null>;
  /**
   * Where a model's name leads for this key; one that is being woken is waited for, at the latest
   * until the signal.
   */
  findEndpoint(key: GatewayKey, model: string, signal: AbortSignal): Promise<FoundEndpoint>;
  /** Which replica is asked, and how each stands. */
  balancer: Balancer;
  /** An endpoint is in use until the returned function is called. */
  using?(workload_id: string): () => void;
  /** The endpoints this key may use; `created_at` in milliseconds since 1970. */
  listModels(key: GatewayKey): Promise<{ id: string; created_at: number }[]>;
  dial: Dial;
  clock: Pick<Clock, 'now' | 'monotonic' | 'after'>;
  log: Log;
};

export type Gateway = {
  /** Answers one request; resolves when the response has ended, and never rejects. */
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    context: { request_id: string },
  ): Promise<void>;
  /** Breaks off what is going on, closes every connection, and refuses what comes after. */
  close(): Promise<void>;
};

export function createGateway(options: GatewayOptions): Gateway {
  const connections = createConnections(options.dial, options.clock);
  const open = new Map<Exchange, Promise<void>>();
  const strangers = createLineCap({
    ...{ clock: options.clock, log: options.log },
    ...{ lines: limits.stranger_lines, window_ms: limits.stranger_lines_ms },
  });
  let closing = false;

  async function serve(exchange: Exchange): Promise<void> {
    const { request } = exchange;
    if (closing) return refuse(exchange, refusals.shuttingDown);
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    const wrong = judgeRoute(request.method ?? '', path);
    if (wrong) return refuse(exchange, wrong);

    const key_digest = keyDigestOf(request);
    const key = key_digest === null ? null : await options.findKey(key_digest);
    if (!isUsable(key, options.clock.now())) return refuse(exchange, refusals.invalidKey);
    exchange.report.tenant = key.tenant_id;
    if (path === '/v1/models') return sendModels(exchange, await options.listModels(key));

    const read = await readQuestion(request, exchange.stop.signal, exchange.idle);
    if (!read.ok) return refuse(exchange, read.refusal);
    const question = read.value;
    const found = await options.findEndpoint(key, question.model, exchange.stop.signal);
    if (!found.ok) {
      return refuse(exchange, refusalOfTarget(found.code, found.details, question.model));
    }
    const { endpoint } = found;
    exchange.report.endpoint = endpoint.workload_id;
    const apart = endpoint.is_apart ? { salt: digest(key.tenant_id) } : null;
    const body = bodyForEngine(question, endpoint.name, apart);
    if (!body.ok) return refuse(exchange, body.refusal);
    const asked = { path, body: body.value, stream: question.stream };
    const affinity = affinityOf(key.tenant_id, question.fields);
    const unused = options.using?.(endpoint.workload_id);
    await answerBy(options, connections, exchange, { endpoint, affinity, asked }).finally(() =>
      unused?.(),
    );
  }

  return {
    handle(request, response, context) {
      const exchange = openExchange(request, response, context.request_id, options.clock);
      const work = run(exchange, serve, options, strangers).finally(() => open.delete(exchange));
      open.set(exchange, work);
      return work;
    },
    async close() {
      closing = true;
      for (const exchange of open.keys()) exchange.stop.abort('shutting_down');
      await Promise.all(open.values());
      connections.close();
    },
  };
}

/** Asked of one replica after the other, each once. */
type Sought = { endpoint: Endpoint; affinity: string | null; asked: EngineQuestion };

async function answerBy(
  { balancer }: GatewayOptions,
  connections: Connections,
  exchange: Exchange,
  { endpoint, affinity, asked }: Sought,
): Promise<void> {
  const { replicas, name } = endpoint;
  const not = new Set<string>();
  const outings: Outing[] = [];
  const next = (): RunConnections | null => {
    const replica = balancer.choose(replicas, { not, affinity });
    if (replica === null) return null;
    not.add(runName(replica.run));
    outings.push(balancer.begin(replica.run));
    tellServed(exchange.response, name, replica);
    return connections.of(replica.run, replica.machine_id);
  };
  // No answer began: another replica may give one as well.
  const another = (why: 'unreachable' | 'cut') => {
    outings.at(-1)?.ended(why === 'cut' ? 'failed' : why);
    return next();
  };
  const first = next();
  if (first === null) return refuse(exchange, refusals.engineUnreachable);
  try {
    await answerFromEngine(exchange, first, asked, another);
  } finally {
    outings.at(-1)?.ended(endOf(exchange));
  }
}

/** Carries one exchange to its end, whatever `serve` does, and writes its log line. */
async function run(
  exchange: Exchange,
  serve: (exchange: Exchange) => Promise<void>,
  options: Pick<GatewayOptions, 'clock' | 'log'>,
  strangers: LineCap,
): Promise<void> {
  const started = options.clock.monotonic();
  const log = options.log.child({ request_id: exchange.request_id });
  try {
    await serve(exchange);
  } catch (error) {
    log.error({ problem: describeError(error) }, 'gateway failed');
    exchange.report.outcome = refusals.internal.code;
    if (exchange.response.headersSent) exchange.response.destroy();
    else refuse(exchange, refusals.internal);
  }
  await exchange.ended();
  const { report, response } = exchange;
  const status = response.headersSent ? response.statusCode : null;
  const duration_ms = Math.round(options.clock.monotonic() - started);
  if (report.tenant === null && !strangers.admits()) return;
  log.info({ ...report, status, duration_ms }, 'gateway request');
}

function tellServed(response: ServerResponse, model: string, replica: Replica): void {
  for (const [name, value] of Object.entries(servedBy(model, replica))) {
    response.setHeader(name, value);
  }
}

/** How it ended for the run that was asked last. */
function endOf({ report, response }: Exchange): OutingEnd {
  if (report.outcome === 'answered') return 'answered';
  if (report.outcome === refusals.engineUnreachable.code) return 'unreachable';
  if (report.outcome.startsWith('engine_')) return 'failed';
  return response.statusCode >= 400 && response.statusCode < 500 ? 'refused' : 'left';
}

function judgeRoute(method: string, path: string): Refusal | null {
  const routes = gatewayRoutes.filter((route) => route.path === path);
  if (routes.length === 0) {
    const reserved = gatewayPrefixes.some((prefix) => path.startsWith(prefix));
    return reserved ? refusals.notServed : refusals.unknownPath;
  }
  if (routes.some((route) => route.method === method)) return null;
  const allowed = routes.map((route) => route.method).join(', ');
  return {
    status: 405,
    message: `This path takes ${allowed} only.`,
    code: 'method_not_allowed',
    headers: { Allow: allowed },
  };
}

function sendModels(exchange: Exchange, models: { id: string; created_at: number }[]): void {
  const data = models.map(({ id, created_at }) => ({
    id,
    object: 'model',
    created: Math.floor(created_at / 1000),
    owned_by: 'einsora',
  }));
  sendJson(exchange, { object: 'list', data });
}
