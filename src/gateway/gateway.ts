/**
 * The inference gateway: OpenAI's API in front of the engines, on the control plane's /v1.
 *
 * Invariants: only `ept_` keys open it; only the paths of `gatewayRoutes` reach an engine; status
 * and headers are exact until an answer has content; after it, an answer that breaks never looks
 * whole; a client that leaves takes its connection to the engine along; what a request held is let
 * go before its client can see the end. Prompts, answers and keys are never logged: one line and
 * one record per request say who, where, how it ended. Called by the HTTP server for
 * `gatewayPrefixes`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import { createLineCap } from '../lib/line-cap.ts';
import { describeError, type Log } from '../lib/log.ts';
import { getAnswer, tell } from './answer.ts';
import type { Balancer } from './balance/balancer.ts';
import { createConnections, type Dial } from './connections.ts';
import { openDelivery } from './delivery.ts';
import type { Endpoint, FoundEndpoint } from './endpoint.ts';
import { refusals } from './errors.ts';
import { type Exchange, openExchange, refuse, sendWhole } from './exchange.ts';
import { type GatewayKey, isUsable, keyDigestOf } from './key.ts';
import { type Limiter, no_turns, type Turns, unlimited } from './limiter.ts';
import { createLook } from './look.ts';
import { failedBy } from './pump.ts';
import { type Question, readQuestion } from './question.ts';
import { outcomeOf, recordOf } from './report.ts';
import type { GatewayApi, RequestRecord } from './request-record.ts';
import { apiOf, judgeRoute } from './route.ts';
import { refusalOfTarget } from './target.ts';
import { estimatePrompt, mostTokens } from './use/estimate.ts';
import { isStreamed } from './whole/whole.ts';

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
  /** Left out: nothing is limited, and everybody goes to work at once. */
  limiter?: Limiter;
  turns?: Turns;
  /** Called once for each request with a usable key, when it has ended. */
  record?(record: RequestRecord): void;
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

type Asking = { exchange: Exchange; key: GatewayKey; key_digest: string };
type Work = {
  api: GatewayApi;
  question: Question;
  endpoint: Endpoint;
  release(): void;
};

export function createGateway(options: GatewayOptions): Gateway {
  const { clock, log, balancer, limiter = unlimited, turns = no_turns } = options;
  const connections = createConnections(options.dial, clock);
  const look = createLook(options);
  const open = new Map<Exchange, Promise<void>>();
  const tellEnded = createTeller(options);
  let closing = false;

  async function serve(exchange: Exchange): Promise<void> {
    const { request, report } = exchange;
    if (closing) return refuse(exchange, refusals.shuttingDown);
    if (open.size > limits.gateway_requests_at_once) return refuse(exchange, refusals.full);
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    const wrong = judgeRoute(request.method ?? '', path);
    if (wrong) return refuse(exchange, wrong);
    const key_digest = keyDigestOf(request);
    const key = key_digest === null ? null : await options.findKey(key_digest);
    if (key_digest === null || !isUsable(key, clock.now())) {
      return refuse(exchange, refusals.invalidKey);
    }
    report.key = key;
    const api = apiOf(path);
    if (api === null) return sendModels(exchange, await options.listModels(key));
    report.api = api;
    await ask({ exchange, key, key_digest }, api);
  }

  async function ask(asking: Asking, api: GatewayApi): Promise<void> {
    const { exchange, key } = asking;
    const { request, report, stop, deadlines } = exchange;
    const read = await readQuestion(request, stop, deadlines);
    if (!read.ok) return refuse(exchange, read.refusal);
    const question = read.value;
    report.model = question.model;
    report.is_stream = question.stream;
    const found = await options.findEndpoint(key, question.model, stop.signal());
    if (!found.ok) {
      return refuse(exchange, refusalOfTarget(found.code, found.details, question.model));
    }
    const { endpoint } = found;
    report.endpoint = endpoint;
    const prompt_tokens = estimatePrompt(question.fields);
    const max_tokens = mostTokens(question.fields);
    const admitted = limiter.admit({ key, endpoint, prompt_tokens, max_tokens });
    if (!admitted.ok) return refuse(exchange, admitted.refusal);
    Object.assign(exchange.headers, admitted.headers);
    const { lease } = admitted;
    const unused = options.using?.(endpoint.workload_id);
    const unwatched = look.at({ ...asking, model: question.model, stop });
    const release = () => {
      unwatched();
      unused?.();
      lease.settle(report.use);
      lease.end();
    };
    await work(asking, { api, question, endpoint, release });
  }

  async function work(asking: Asking, at: Work): Promise<void> {
    const { api, question, endpoint } = at;
    const { exchange, key } = asking;
    const delivery = question.stream && isStreamed(api) ? openDelivery(exchange) : null;
    const signal = exchange.stop.signal();
    let leave = () => {};
    let released = false;
    const letGo = () => {
      if (!released) leave();
      if (!released) at.release();
      released = true;
    };
    try {
      const turn = await turns.enter({
        workload_id: endpoint.workload_id,
        key_id: key.id,
        capacity: () => balancer.capacity(endpoint.replicas),
        signal,
      });
      if (turn.ok) leave = turn.leave;
      const ending = turn.ok
        ? await getAnswer(
            { connections, balancer, clock },
            {
              ...{ exchange, key, question, api, endpoint, delivery },
              findAgain: () => options.findEndpoint(key, question.model, signal),
            },
          )
        : failedBy(turn.refusal);
      letGo();
      tell(exchange, delivery, ending);
    } finally {
      letGo();
    }
  }

  return {
    handle(request, response, { request_id }) {
      const exchange = openExchange(request, response, request_id, clock);
      const work = run(exchange, serve, log)
        .then(() => tellEnded(exchange))
        .finally(() => open.delete(exchange));
      open.set(exchange, work);
      return work;
    },
    async close() {
      closing = true;
      for (const exchange of open.keys()) exchange.stop.now('shutting_down');
      await Promise.all(open.values());
      look.close();
      connections.close();
    },
  };
}

/** Carries one exchange to its end, whatever `serve` does. */
async function run(
  exchange: Exchange,
  serve: (exchange: Exchange) => Promise<void>,
  log: Log,
): Promise<void> {
  const { response, report, request_id } = exchange;
  try {
    await serve(exchange);
  } catch (error) {
    log.error({ request_id, problem: describeError(error) }, 'gateway failed');
    report.is_broken = response.headersSent;
    report.code = refusals.internal.code;
    if (response.headersSent) response.destroy();
    else refuse(exchange, refusals.internal);
  }
  await exchange.ended();
}

/** Writes the line and the record of a request that has ended. */
function createTeller({ clock, log, record }: GatewayOptions): (exchange: Exchange) => void {
  const strangers = createLineCap({
    ...{ clock, log },
    ...{ lines: limits.stranger_lines, window_ms: limits.stranger_lines_ms },
  });
  return ({ request_id, response, report, stop }) => {
    const now = clock.monotonic();
    const status = response.headersSent ? response.statusCode : null;
    const reason = stop.reason();
    const kept = recordOf(report, { request_id, status, reason, now });
    if (kept !== null) record?.(kept);
    if (report.key === null && !strangers.admits()) return;
    const left = outcomeOf(report, reason) === 'client_left' ? 'client_left' : null;
    log.info(
      {
        request_id,
        tenant: report.key?.tenant_id ?? null,
        endpoint: report.endpoint?.workload_id ?? null,
        outcome: left ?? report.code ?? 'answered',
        ...{ bytes: report.bytes, status },
        duration_ms: Math.round(now - report.came_at),
      },
      'gateway request',
    );
  };
}

function sendModels(exchange: Exchange, models: { id: string; created_at: number }[]): void {
  const data = models.map(({ id, created_at }) => ({
    id,
    object: 'model',
    created: Math.floor(created_at / 1000),
    owned_by: 'einsora',
  }));
  sendWhole(exchange, Buffer.from(JSON.stringify({ object: 'list', data })));
}
