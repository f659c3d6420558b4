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
import type { Balancer } from './balance/balancer.ts';
import { createConnections, type Dial } from './connections.ts';
import type { FoundEndpoint, Soon } from './endpoint.ts';
import { refusals } from './errors.ts';
import { type Exchange, openExchange, refuse } from './exchange.ts';
import type { GatewayKey } from './key.ts';
import { type Limiter, no_turns, type Turns, unlimited } from './limiter.ts';
import { createLook } from './look.ts';
import { outcomeOf, recordOf } from './report.ts';
import type { RequestRecord } from './request-record.ts';
import { serve } from './serve.ts';
import type { Waiting } from './stop.ts';

export type GatewayOptions = {
  /** The stored key of a digest (`lib/secret`), usable or not. */
  findKey(key_digest: string): Soon<GatewayKey | null>;
  /**
   * Where a model's name leads for this key; one that is being woken is waited for, at the latest
   * until it is stopped.
   */
  findEndpoint(key: GatewayKey, model: string, stop: Waiting): Soon<FoundEndpoint>;
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

export function createGateway(options: GatewayOptions): Gateway {
  const { clock, log, limiter = unlimited, turns = no_turns } = options;
  const connections = createConnections(options.dial, clock);
  const look = createLook(options);
  const deps = { ...options, connections, look, limiter, turns };
  const open = new Map<Exchange, Promise<void>>();
  const tellEnded = createTeller(options);
  let closing = false;

  const answer = (exchange: Exchange) =>
    closing ? refuse(exchange, refusals.shuttingDown) : serve(deps, exchange, open.size);

  return {
    handle(request, response, { request_id }) {
      const exchange = openExchange(request, response, request_id, clock);
      const work = run(exchange, answer, log, () => {
        open.delete(exchange);
        tellEnded(exchange);
      });
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

/** Carries one exchange to its end, whatever `answer` does, and tells that it came. */
async function run(
  exchange: Exchange,
  answer: (exchange: Exchange) => void | Promise<void>,
  log: Log,
  ended: () => void,
): Promise<void> {
  const { response, report, request_id } = exchange;
  try {
    await answer(exchange);
  } catch (error) {
    log.error({ request_id, problem: describeError(error) }, 'gateway failed');
    report.is_broken = response.headersSent;
    report.code = refusals.internal.code;
    if (response.headersSent) response.destroy();
    else refuse(exchange, refusals.internal);
  }
  await exchange.ended();
  ended();
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
    try {
      if (kept !== null) record?.(kept);
    } catch (error) {
      log.error({ request_id, problem: describeError(error) }, 'a request was not recorded');
    }
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
