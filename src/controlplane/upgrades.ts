/**
 * Upgrades on the control plane's own host: the rows of contract/upgrades.ts with their handlers,
 * behind the same authentication as the API.
 *
 * Invariants: nothing is handed on before it is authorised; a path without a row is 404; what rides
 * on a session's cookie must say our very Origin (a browser always says one, and Chromium says
 * nothing else); a socket ends within a second of the proof that opened it; each has an id of ours
 * and a line in the log when it ends.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { EinsoraError, noSuchPath } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import {
  raw_protocol,
  type UpgradeName,
  type UpgradeRoute,
  upgradeRoutes,
} from '../contract/upgrades.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { judgePrincipal } from './auth/authorise.ts';
import { createTouch, type Principal, principalOf } from './auth/principal.ts';
import type { Revocations } from './auth/revocations.ts';

/** One opening handshake, authorised. The handler answers it and owns the socket. */
export type Upgrade = {
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
  principal: Principal;
  /** What the path names, decoded. */
  params: Record<string, string>;
  query: URLSearchParams;
  request_id: string;
  log: Log;
  /** Says goodbye when the proof ends, in place of an end without a word; it has a moment. */
  farewell(say: () => void): void;
};

/**
 * Until it has written to the socket it may throw an EinsoraError, told as the API tells it. What
 * it opened ends when the socket closes: that is how a revoked proof ends it.
 */
export type UpgradeHandler = (upgrade: Upgrade) => Promise<void>;

export type UpgradeHandlers<Name extends string = UpgradeName> = Record<Name, UpgradeHandler>;

export type Upgrades = {
  /** Answers an opening handshake on our own host; never throws. */
  handle(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    facts: { host: string; request_id: string; log: Log },
  ): void;
};

export type UpgradeDeps = {
  store: EinsoraStore;
  clock: Clock;
  revocations: Revocations;
  cookieName: () => string;
};

/** `table` is given by tests alone: the contract's rows are what is served. */
export function createUpgrades<Name extends string = UpgradeName>(
  deps: UpgradeDeps,
  handlers: UpgradeHandlers<Name>,
  table: Record<Name, UpgradeRoute> = upgradeRoutes as Record<Name, UpgradeRoute>,
): Upgrades {
  const touch = createTouch(deps.store);
  const hold = createHolds();
  const rows = (Object.keys(table) as Name[]).map((name) => ({
    ...{ name, route: table[name], handler: handlers[name] },
    pattern: patternOf(table[name].path),
  }));

  async function authorise(request: IncomingMessage, route: UpgradeRoute, host: string) {
    const { headers } = request;
    const read = { get: (name: string) => asText(headers[name]) };
    const principal = await principalOf({ ...deps, touch }, read, deps.cookieName());
    if (principal === null) throw new EinsoraError('sign_in_required');
    const by_cookie = principal.via === 'session';
    if (by_cookie && !isOwnPage(request, host)) throw new EinsoraError('cross_site');
    judgePrincipal(principal, route.auth, 'POST');
    return principal;
  }

  async function serve(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    facts: { host: string; request_id: string; log: Log },
  ): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const row = rows.find(({ pattern }) => pattern.test(url.pathname));
    const spoken = request.headers.upgrade?.toLowerCase();
    if (row === undefined || spoken !== (row.route.speaks ?? 'websocket')) {
      throw noSuchPath();
    }
    const principal = await authorise(request, row.route, facts.host);
    if (socket.destroyed) return;
    hold(principal, socket);
    const farewell = endWithProof(deps, principal, socket);
    const log = facts.log.child({ tenant: principal.tenant, subject: principal.user_name });
    const began = deps.clock.monotonic();
    socket.once('close', () => {
      const duration_ms = Math.round(deps.clock.monotonic() - began);
      log.info({ upgrade: row.name, duration_ms }, 'upgrade ended');
    });
    const params = decode(row.pattern.exec(url.pathname)?.groups ?? {});
    const { request_id } = facts;
    const { searchParams: query } = url;
    const ours = { request, socket, head, principal, params, query, request_id, log };
    await row.handler({ ...ours, farewell });
  }

  return {
    handle(request, socket, head, facts) {
      serve(request, socket, head, facts).catch((thrown) => {
        const known = thrown instanceof EinsoraError;
        if (!known) facts.log.error({ error: describeError(thrown) }, 'an upgrade failed');
        const { request_id } = facts;
        const error = known ? thrown : new EinsoraError('internal', { request_id });
        refuseUpgrade(socket, error, request_id);
      });
    },
  };
}

/** Ends the socket with the proof that opened it; gives what sets the goodbye that is said then. */
function endWithProof(
  { revocations, clock }: UpgradeDeps,
  principal: Principal,
  socket: Duplex,
): Upgrade['farewell'] {
  let sayGoodbye: (() => void) | null = null;
  const unwatch = revocations.watch(principal, () => {
    if (sayGoodbye === null) return void socket.destroy();
    clock.after(limits.upgrade_farewell_ms, () => socket.destroy());
    sayGoodbye();
  });
  socket.once('close', unwatch);
  return (say) => {
    sayGoodbye = say;
  };
}

/** Counts sockets until they close: of a user, and in all. */
function createHolds() {
  const open = new Map<string, number>();
  let sockets = 0;
  return ({ user_id }: Principal, socket: Duplex): void => {
    const own = open.get(user_id) ?? 0;
    if (own >= limits.upgrades_per_user || sockets >= limits.upgrades_at_once) {
      throw new EinsoraError('too_many_streams', { limit: limits.upgrades_per_user });
    }
    open.set(user_id, own + 1);
    sockets += 1;
    socket.once('close', () => {
      sockets -= 1;
      const left = (open.get(user_id) ?? 1) - 1;
      if (left > 0) open.set(user_id, left);
      else open.delete(user_id);
    });
  };
}

/** Is this an opening handshake of what we speak, and nothing more? */
export function isHandshake(request: IncomingMessage): boolean {
  const { headers, method } = request;
  const has_body = 'content-length' in headers || 'transfer-encoding' in headers;
  const spoken = headers.upgrade?.toLowerCase();
  return method === 'GET' && !has_body && (spoken === 'websocket' || spoken === raw_protocol);
}

/** Answers a handshake with a refusal in the API's shape, and closes the connection. */
export function refuseUpgrade(socket: Duplex, error: EinsoraError, request_id: string): void {
  if (socket.destroyed) return;
  const body = JSON.stringify(error.body(request_id));
  const head = [
    `HTTP/1.1 ${error.status} Refused`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-ID: ${request_id}`,
    'X-Content-Type-Options: nosniff',
    'Cache-Control: no-store',
    'Connection: close',
  ];
  socket.on('error', () => socket.destroy());
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

/** A WebSocket of our own page: its exact Origin, and nothing that says otherwise. */
function isOwnPage(request: IncomingMessage, host: string): boolean {
  const origins = request.headersDistinct.origin ?? [];
  const site = request.headers['sec-fetch-site'];
  return (
    origins.length === 1 &&
    origins[0] === `http://${host}` &&
    (site === undefined || site === 'same-origin')
  );
}

function patternOf(path: string): RegExp {
  const escaped = path.replaceAll('.', '\\.');
  return new RegExp(`^${escaped.replace(/\{(\w+)\}/g, '(?<$1>[^/]{1,200})')}$`);
}

function decode(groups: Record<string, string>): Record<string, string> {
  try {
    return Object.fromEntries(
      Object.entries(groups).map(([name, value]) => [name, decodeURIComponent(value)]),
    );
  } catch {
    throw noSuchPath();
  }
}

function asText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}
