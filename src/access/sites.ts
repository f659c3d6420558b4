/**
 * The sites of workloads: each at a host of its own, opened by a ticket, carried by a cookie of
 * that host alone (ADR-0044, ADR-0045).
 *
 * Invariants: what another site may not do is refused before anything is looked up; nothing is
 * dialled for who has no access; what a run's page is asked for goes to that run alone, with its
 * token and without anything of ours; all of it ends within a second of its proof or its run.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { EinsoraError, noSuchPath } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import { siteOf } from '../core/images.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { DialError } from '../lib/dialled-agent.ts';
import { createLineCap } from '../lib/line-cap.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import type { Secret } from '../lib/secret.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { type Access, type Accesses, createAccesses, type Found, type Proof } from './accesses.ts';
import { hasBody, refuseSocket, sendError, sendPage, type Target } from './answers.ts';
import { cookieValues, foreignCookies, headersForProgram } from './headers.ts';
import { createOwnPages, homeOf, isOwnPath, type OwnPages, stateError } from './own-pages.ts';
import { failedPage, type Hop, neededPage, waitPage } from './pages.ts';
import { relay } from './relay.ts';
import type { SiteFacts, Sites } from './site.ts';
import { tunnel } from './tunnel.ts';
import { createUpstreams, type Dial, type Upstream, type Upstreams } from './upstreams.ts';
import { isNavigation, isWelcome, isWelcomeSocket } from './visitor.ts';

export type SitesDeps = {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  log: Log;
  dial: Dial;
  /** The token that a run's own page asks for. */
  siteToken(run: RunKey): Secret;
  watchProof(proof: Proof, ended: () => void): () => void;
  watchRun(run: RunKey, ended: () => void): () => void;
  /** A workload's site was used. */
  touched(workload_id: string): void;
  /** It is in use until the returned function is called. */
  using?(workload_id: string): () => void;
  /** Wakes it where it was stopped for being idle. */
  wake?(workload_id: string, how: string): Promise<unknown>;
  /** With the port: browsers send a cookie to every port of a host. */
  cookieName(): string;
};

type Context = SitesDeps & {
  accesses: Accesses;
  upstreams: Upstreams;
  own: OwnPages;
  /** How each access gets to its run. */
  ways: WeakMap<Access, Way>;
  /** What was let in by which connection, by the text of its cookies. */
  seen: WeakMap<Socket, Seen>;
  open_requests: number;
  /** Lines of what strangers ask for. */
  mayLog(): boolean;
};

type Seen = { cookie: string; host: string; access: Access; programs_cookies: string };

export function createSites(deps: SitesDeps): Sites & { close(): void } {
  const { clock, log } = deps;
  const users = new Map<string, number>();
  const upstreams = createUpstreams(deps.dial, clock);
  const strangers = createLineCap({
    ...{ clock, log, lines: limits.stranger_lines, window_ms: limits.stranger_lines_ms },
  });
  const accesses = createAccesses({
    ...deps,
    watchRun: (run, ended) => counted(users, upstreams, run, deps.watchRun(run, ended)),
  });
  const context: Context = {
    ...{ ...deps, accesses, upstreams, own: createOwnPages({ ...deps, accesses }) },
    ...{
      ways: new WeakMap(),
      seen: new WeakMap(),
      open_requests: 0,
      mayLog: () => strangers.admits(),
    },
  };
  return {
    handle(request, response, facts) {
      const to = { request, response, facts };
      const known = knownTo(context, request, facts);
      if (known !== null) return carry(context, to, facts, known);
      serve(context, to, facts).catch((error) => {
        const { request_id } = facts;
        log.error({ error: describeError(error), request_id }, 'a site failed');
        sendError(to, new EinsoraError('internal', { request_id }));
      });
    },
    upgrade(request, socket, head, facts) {
      shake(context, { request, socket, head, facts }).catch((thrown) => {
        const { request_id } = facts;
        const is_known = thrown instanceof EinsoraError;
        const error = is_known ? thrown : new EinsoraError('internal', { request_id });
        if (!is_known) log.error({ error: describeError(thrown), request_id }, 'a site failed');
        refuseSocket(socket, error, request_id);
      });
    },
    close() {
      accesses.close();
      upstreams.close();
    },
  };
}

/** Retires a run's connections when the last access to it ends. */
function counted(
  users: Map<string, number>,
  upstreams: Upstreams,
  run: RunKey,
  undo: () => void,
): () => void {
  const name = runName(run);
  users.set(name, (users.get(name) ?? 0) + 1);
  return () => {
    undo();
    const left = (users.get(name) ?? 1) - 1;
    if (left > 0) return void users.set(name, left);
    users.delete(name);
    upstreams.retire(run);
  };
}

/**
 * The usual request, which asks nobody and waits for nothing: of a connection on which the very
 * same cookies opened the very same host before.
 */
function knownTo(context: Context, request: IncomingMessage, facts: SiteFacts): Seen | null {
  const { cookie } = request.headers;
  if (cookie === undefined || isOwnPath(request.url ?? '')) return null;
  const before = context.seen.get(request.socket);
  if (before?.cookie !== cookie || before.host !== facts.host || before.access.is_over) return null;
  if (!isWelcome(request, `http://${facts.host}`)) return null;
  if (context.open_requests >= limits.site_requests_at_once) return null;
  before.access.used_at = context.clock.monotonic();
  return before;
}

async function serve(context: Context, to: Target, facts: SiteFacts): Promise<void> {
  const { request, response } = to;
  const origin = `http://${facts.host}`;
  if (!isWelcome(request, origin)) return sendError(to, new EinsoraError('cross_site'));
  if (context.open_requests >= limits.site_requests_at_once) {
    return sendError(to, new EinsoraError('too_many_requests'));
  }
  const cookies = cookieValues(request.headers.cookie, context.cookieName());
  if (isOwnPath(request.url ?? '')) return context.own.serve(to, facts, cookies);
  // What comes before it is known who asks is neither read nor lost.
  const found = await context.accesses.find(cookies, facts.host);
  if (response.destroyed) return;
  if (found.is === 'open') {
    const { access } = found;
    const { cookie = '' } = request.headers;
    const programs_cookies = foreignCookies(cookie);
    const seen = { cookie, host: facts.host, access, programs_cookies };
    context.seen.set(request.socket, seen);
    return carry(context, to, facts, seen);
  }
  if (context.mayLog()) {
    const { workload_id: workload, request_id } = facts;
    context.log.info({ workload, request_id, found: found.is }, 'a site was not opened');
  }
  // Somebody looks for it: what only asks in the background (a page left open) does not wake it.
  if (found.is === 'waiting' && found.row.state.startsWith('stop') && isNavigation(request)) {
    await context.wake?.(facts.workload_id, 'somebody opened its page');
  }
  sayWhy(to, facts, found);
}

/** A person gets a page that helps on; a program gets a code. */
function sayWhy(to: Target, facts: SiteFacts, found: Exclude<Found, { is: 'open' }>) {
  const error = found.is === 'nobody' ? new EinsoraError('access_needed') : stateError(found.row);
  if (!isNavigation(to.request)) return sendError(to, error);
  const home = homeOf(facts.host);
  if (found.is === 'nobody') {
    return sendPage(to, error.status, neededPage(`${home}open/${facts.workload_id}`));
  }
  const page = waitPage(found.row.name, error.message, home);
  sendPage(to, error.status, page, { 'retry-after': '2' });
}

function carry(context: Context, to: Target, facts: SiteFacts, seen: Seen) {
  const { request, response } = to;
  const { access } = seen;
  if (access.is_over) return sendError(to, new EinsoraError('access_needed'));
  if (access.open.size >= limits.site_requests_per_session) {
    return sendError(to, new EinsoraError('too_many_requests'));
  }
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    return sendError(to, new EinsoraError('bad_request', { problem: 'its transfer-encoding' }));
  }
  const way = wayOf(context, access);
  if (way === null) return sendError(to, noSite(access));
  context.open_requests += 1;
  context.touched(access.row.workload_id);
  const unused = context.using?.(access.row.workload_id);
  const breakOff = relay({
    request,
    response,
    agent: way.agent,
    clock: context.clock,
    origin: `http://${facts.host}`,
    expects_continue: facts.expects_continue,
    headers: headersForProgram(request.rawHeaders, {
      host: facts.host,
      request_id: facts.request_id,
      cookies: seen.programs_cookies,
      authorization: way.authorization,
      expects_continue: facts.expects_continue,
      upgrade: false,
      chunked: coding !== undefined,
    }),
    failed: (error) => tellFailed(context, to, access, error),
    ended() {
      unused?.();
      context.open_requests -= 1;
      access.open.delete(breakOff);
    },
  });
  access.open.add(breakOff);
}

type Handshake = { request: IncomingMessage; socket: Duplex; head: Buffer; facts: SiteFacts };

async function shake(context: Context, { request, socket, head, facts }: Handshake): Promise<void> {
  const origin = `http://${facts.host}`;
  if (!isWelcomeSocket(request, origin)) throw new EinsoraError('cross_site');
  if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
    throw new EinsoraError('bad_request', { problem: 'it asks for another protocol' });
  }
  if (isOwnPath(request.url ?? '')) throw noSuchPath();
  const cookies = cookieValues(request.headers.cookie, context.cookieName());
  const found = await context.accesses.find(cookies, facts.host);
  if (socket.destroyed) return;
  if (found.is === 'nobody') throw new EinsoraError('access_needed');
  if (found.is === 'waiting') throw stateError(found.row);
  const { access } = found;
  if (access.is_over) throw new EinsoraError('access_needed');
  if (
    access.open.size >= limits.site_requests_per_session ||
    context.open_requests >= limits.site_requests_at_once
  ) {
    throw new EinsoraError('too_many_requests');
  }
  const way = wayOf(context, access);
  if (way === null) throw noSite(access);
  const touched = () => context.touched(access.row.workload_id);
  touched();
  context.open_requests += 1;
  const breakOff = tunnel({
    ...{ request, socket, head, origin, touched, clock: context.clock, dial: way.dial },
    headers: headersForProgram(request.rawHeaders, {
      ...{ host: facts.host, request_id: facts.request_id, expects_continue: false },
      ...{ authorization: way.authorization, chunked: false, upgrade: true },
      cookies: foreignCookies(request.headers.cookie),
    }),
    failed(error) {
      const { error: told } = judgeFailure(access, error);
      logFailed(context, access, facts.request_id, error);
      refuseSocket(socket, told, facts.request_id);
    },
  });
  access.open.add(breakOff);
  const unused = context.using?.(access.row.workload_id);
  socket.once('close', () => {
    unused?.();
    context.open_requests -= 1;
    access.open.delete(breakOff);
  });
}

type Way = Upstream & { authorization: string | null };

/** Found out once for each access: deriving the token costs more than asking for it. */
function wayOf(context: Context, access: Access): Way | null {
  const known = context.ways.get(access);
  if (known !== undefined) return known;
  const { row, run, machine_id } = access;
  const site = siteOf(row.kind);
  if (site === null) return null;
  const token = site.auth === 'token' ? context.siteToken(run).reveal() : null;
  const { agent, dial } = context.upstreams.of(run, machine_id, site.port);
  const way = { agent, dial, authorization: token === null ? null : `token ${token}` };
  context.ways.set(access, way);
  return way;
}

function noSite({ row: { name, kind } }: Access): EinsoraError {
  return new EinsoraError('no_site', { name, kind });
}

/** Codes of a dial that failed before the program was reached. */
const machine_codes = new Set(['machine_offline', 'machine_unreachable', 'not_found']);

function judgeFailure({ row }: Access, error: unknown): { hop: Hop; error: EinsoraError } {
  const { name } = row;
  const cause = error instanceof DialError ? error.cause : error;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  if (machine_codes.has(code)) {
    return { hop: 'machine', error: new EinsoraError('site_machine_unreachable', { name }) };
  }
  const why = cause instanceof Error ? cause.message.slice(0, 200) : 'it said nothing';
  return { hop: 'program', error: new EinsoraError('site_program_unreachable', { name, why }) };
}

function tellFailed(context: Context, to: Target, access: Access, cause: unknown) {
  const { request_id } = to.facts;
  const { hop, error } = judgeFailure(access, cause);
  logFailed(context, access, request_id, cause);
  if (!isNavigation(to.request) || hasBody(to.request)) return sendError(to, error);
  sendPage(to, error.status, failedPage(hop, error.message, error.fix, request_id));
}

function logFailed(context: Context, { row }: Access, request_id: string, error: unknown): void {
  if (!context.mayLog()) return;
  const { workload_id: workload } = row;
  context.log.info(
    { workload, request_id, problem: describeError(error) },
    'a site did not answer',
  );
}
