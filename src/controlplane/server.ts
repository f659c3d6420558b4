/**
 * The listeners, and who answers what: on our own host gateway paths, pages, the API and upgrades;
 * on the hosts of workloads their sites.
 *
 * Invariants: loopback only, on 127.0.0.1 and ::1 at the same port (a taken port is fatal, so that
 * nobody else can sit on the other family; no IPv6 at all is only said); the host is judged first;
 * each request has an id of ours, on its answer and on its line in the log.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { getRequestListener } from '@hono/node-server';
import type { Sites } from '../access/site.ts';
import { EinsoraError, noSuchPath } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import { isUpload } from '../contract/routes/files.ts';
import { isGatewayPath } from '../contract/routes.ts';
import { formatBytes } from '../core/format.ts';
import { makeId } from '../core/ids.ts';
import { hideTokens } from '../core/token.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { Clock } from '../lib/clock.ts';
import { isErrno } from '../lib/files.ts';
import { createLineCap } from '../lib/line-cap.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import { clientRequestId } from './action.ts';
import type { Api, RequestFacts } from './api.ts';
import { hasBody, readBody } from './body.ts';
import { createHostJudge } from './hosts.ts';
import { servePage } from './page.ts';
import { isHandshake, refuseUpgrade, type Upgrades } from './upgrades.ts';

export type ServerDeps = {
  api: Api;
  gateway: Gateway;
  sites: Sites;
  upgrades: Upgrades;
  clock: Clock;
  random: Random;
  log: Log;
};

const free_port_tries = 5;
const server_options = {
  requestTimeout: 0,
  headersTimeout: limits.request_headers_ms,
  maxHeaderSize: limits.header_bytes,
  keepAliveTimeout: 30_000,
  // What asks for anything but a WebSocket is answered as if it had not asked: h2c above all.
  shouldUpgradeCallback: isHandshake,
};

export type Listening = { port: number; ipv6: boolean; close(): Promise<void> };

export async function listen(port: number, deps: ServerDeps): Promise<Listening> {
  for (let tries_left = port === 0 ? free_port_tries : 1; ; tries_left -= 1) {
    try {
      return await listenOn(port, deps);
    } catch (error) {
      // Any port will do, and the one that was free on 127.0.0.1 was taken on ::1: another one.
      if (!(error instanceof EinsoraError) || tries_left <= 1) throw error;
    }
  }
}

async function listenOn(port: number, deps: ServerDeps): Promise<Listening> {
  const bound = { port };
  const upgraded = new Set<Duplex>();
  const first = open(deps, bound, upgraded);
  await bind(first, port, '127.0.0.1');
  bound.port = (first.address() as AddressInfo).port;
  const second = open(deps, bound, upgraded);
  let ipv6 = true;
  try {
    await bind(second, bound.port, '::1');
  } catch (error) {
    if (error instanceof EinsoraError) {
      first.close();
      throw error;
    }
    ipv6 = false;
  }
  return {
    port: bound.port,
    ipv6,
    async close() {
      await Promise.all([shut(first, upgraded), ipv6 ? shut(second, upgraded) : undefined]);
    },
  };
}

type Facts = Required<Omit<RequestFacts, 'body'>> & RequestFacts;
const no_body = Buffer.alloc(0);
type Serve = (request: IncomingMessage, response: ServerResponse, facts: Facts) => void;

function open(deps: ServerDeps, bound: { port: number }, upgraded: Set<Duplex>): Server {
  const answerOwn = ownHost(deps);
  const judgeHost = createHostJudge();
  const answer = (
    request: IncomingMessage,
    response: ServerResponse,
    expects_continue: boolean,
  ) => {
    const request_id = makeId(deps.clock.now(), deps.random.bytes(10));
    const judged = judgeHost(request, bound.port);
    if (judged?.kind === 'site') {
      const { workload_id, host } = judged;
      const facts = { workload_id, host, request_id, expects_continue, log: deps.log };
      return deps.sites.handle(request, response, facts);
    }
    if (expects_continue) response.writeContinue();
    // It counts, limits and logs its own: many are open for long, and none may keep the API busy.
    if (judged !== null && isGatewayPath(pathOf(request))) {
      return void deps.gateway.handle(request, response, { request_id });
    }
    answerOwn(request, response, request_id, judged !== null);
  };
  const server = createServer(server_options, (request, response) =>
    answer(request, response, false),
  );
  server.on('checkContinue', (request, response) => answer(request, response, true));
  server.on('upgrade', (request, socket, head) => {
    // Its end and its errors are watched from the first moment: nobody else may yet.
    socket.on('error', () => socket.destroy());
    upgraded.add(socket);
    socket.once('close', () => upgraded.delete(socket));
    const request_id = makeId(deps.clock.now(), deps.random.bytes(10));
    const log = deps.log.child({ request_id });
    const judged = judgeHost(request, bound.port);
    if (judged === null) return refuseUpgrade(socket, new EinsoraError('wrong_host'), request_id);
    const facts = { host: judged.host, request_id, log };
    if (judged.kind === 'own') return deps.upgrades.handle(request, socket, head, facts);
    if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
      const none = noSuchPath();
      return refuseUpgrade(socket, none, request_id);
    }
    const { workload_id } = judged;
    deps.sites.upgrade(request, socket, head, { ...facts, workload_id, expects_continue: false });
  });
  return server;
}

/** Requests on our own host, or on none, but the gateway's: numbered, logged, counted. */
function ownHost(deps: ServerDeps) {
  let open_requests = 0;
  const serve = route(deps);
  const strangers = createLineCap({
    ...{ clock: deps.clock, log: deps.log },
    ...{ lines: limits.stranger_lines, window_ms: limits.stranger_lines_ms },
  });
  return (
    request: IncomingMessage,
    response: ServerResponse,
    request_id: string,
    is_own: boolean,
  ) => {
    let counts = true;
    const uncount = () => {
      if (counts) open_requests -= 1;
      counts = false;
    };
    const log = deps.log.child({ request_id });
    const facts: Facts = {
      ...{ request_id, log, holds: uncount },
      hangUp: () => void response.destroy(),
      is_bounded: true,
    };
    const began = deps.clock.monotonic();
    harden(response, request_id);
    open_requests += 1;
    response.once('close', () => {
      uncount();
      const duration_ms = Math.round(deps.clock.monotonic() - began);
      const { method } = request;
      const path = hideTokens(pathOf(request));
      const client_request_id = clientRequestId(request.headers['x-request-id']) ?? undefined;
      const { statusCode: status } = response;
      const is_stranger = facts.log === log; // the API binds to it who asks
      if (is_stranger && status >= 400 && !strangers.admits()) return;
      facts.log.info({ method, path, status, duration_ms, client_request_id }, 'request');
    });
    if (!is_own) return refuse(response, new EinsoraError('wrong_host'), request_id);
    if (open_requests > limits.requests_at_once) {
      return refuse(response, new EinsoraError('too_many_requests'), request_id);
    }
    serve(request, response, facts);
  };
}

/** Pages, then the API. */
function route(deps: ServerDeps): Serve {
  // The API's listener reads who is asking from here: the id and the log of this very request.
  const known = new WeakMap<IncomingMessage, Facts>();
  const serveApi = getRequestListener((request, env) => {
    const { incoming } = env as { incoming: IncomingMessage };
    return deps.api.fetch(request, { facts: known.get(incoming) });
  });
  return (request, response, facts) => {
    const path = pathOf(request);
    const { request_id } = facts;
    if (servePage(request, response, path)) return;
    known.set(request, facts);
    // What is still on its way when one is refused is read and dropped for a moment by the API's
    // listener: a connection closed on it would be reset, and the refusal lost with it.
    if (isUpload(request.method, path)) return void serveApi(request, response);
    if (!hasBody(request)) {
      facts.body = no_body;
      return void serveApi(request, response);
    }
    readBody(deps.clock, request, (end, body = no_body) => {
      facts.body = body;
      if (end === 'whole') void serveApi(request, response);
      else if (end === 'too_large') refuse(response, tooLarge(), request_id);
    });
  };
}

function tooLarge(): EinsoraError {
  return new EinsoraError('body_too_large', { limit: formatBytes(limits.api_body_bytes) });
}

function pathOf(request: IncomingMessage): string {
  return (request.url ?? '').split('?', 1)[0] ?? '';
}

function harden(response: ServerResponse, request_id: string): void {
  response.setHeader('x-request-id', request_id);
  response.setHeader('x-content-type-options', 'nosniff');
  response.setHeader('referrer-policy', 'no-referrer');
  response.setHeader('cross-origin-resource-policy', 'same-origin');
  response.setHeader('cache-control', 'no-store');
}

function refuse(response: ServerResponse, error: EinsoraError, request_id: string): void {
  const body = JSON.stringify(error.body(request_id));
  response.writeHead(error.status, {
    'content-type': 'application/json; charset=utf-8',
    connection: 'close',
  });
  response.end(body);
}

function bind(server: Server, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const taken = isErrno(error, 'EADDRINUSE') || isErrno(error, 'EACCES');
      const suggestion = port < 1024 ? 4600 : port + 1;
      reject(taken ? new EinsoraError('port_in_use', { port, address, suggestion }, error) : error);
    });
    server.listen({ port, host: address, ipv6Only: address === '::1' }, () => resolve());
  });
}

/** Node forgets sockets that were upgraded: they are ended here. */
function shut(server: Server, upgraded: Set<Duplex>): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
    for (const socket of upgraded) socket.destroy();
  });
}
