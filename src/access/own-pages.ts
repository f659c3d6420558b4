/**
 * What a site's host answers by itself, below `/.einsora/`: the page that spends a ticket, and how
 * the workload is, for a page that waits.
 *
 * Invariants: nothing of it ever reaches the program; a ticket is spent by a write of the same
 * origin alone, so that neither a prefetch nor a scanner of links burns it; the cookie is for this
 * host, for no script, and named with the port.
 */
import type { IncomingMessage } from 'node:http';
import { EinsoraError, noSuchPath } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import { makeId } from '../core/ids.ts';
import { checkToken } from '../core/token.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import { digest } from '../lib/secret.ts';
import { type AccessRow, isTicketKnown } from '../store/access.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { Accesses } from './accesses.ts';
import { sendError, sendJson, sendNothing, sendPage, type Target } from './answers.ts';
import { openPage } from './pages.ts';
import type { SiteFacts } from './site.ts';

export type OwnPages = {
  serve(to: Target, facts: SiteFacts, cookies: readonly string[]): Promise<void>;
};

type Deps = {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  log: Log;
  accesses: Accesses;
  cookieName(): string;
};

const prefix = '/.einsora';
const body_bytes = 1024;

export function isOwnPath(url: string): boolean {
  if (!url.startsWith(prefix)) return false;
  const next = url[prefix.length];
  return next === undefined || next === '/' || next === '?';
}

/** The dashboard of the control plane that serves this host. */
export function homeOf(host: string): string {
  return `http://${host.replace(/^w-[^.]+\./, '')}/`;
}

/** Why access that is somebody's opens nothing now. */
export function stateError({ name, state, current_epoch }: AccessRow): EinsoraError {
  if (state === 'deleted' || state === 'deleting') {
    return new EinsoraError('not_found', { what: `workload ${name}` });
  }
  if (current_epoch !== null) return new EinsoraError('site_run_ended', { name });
  // Between two runs the workload may already be said to run.
  return new EinsoraError('site_not_ready', {
    name,
    state: state === 'running' ? 'starting' : state,
  });
}

export function createOwnPages(deps: Deps): OwnPages {
  return {
    async serve(to, facts, cookies) {
      const { method } = to.request;
      const path = (to.request.url ?? '').split('?', 1)[0];
      const reads = method === 'GET' || method === 'HEAD';
      if (path === `${prefix}/open` && reads) return sendOpenPage(to, facts);
      if (path === `${prefix}/open` && method === 'POST') return redeem(deps, to, facts);
      if (path === `${prefix}/state` && reads) return sendState(deps, to, facts, cookies);
      if (path === `${prefix}/again` && method === 'POST') return renew(deps, to, facts, cookies);
      sendError(to, noSuchPath());
    },
  };
}

function sendOpenPage(to: Target, { host, workload_id }: SiteFacts): void {
  sendPage(to, 200, openPage(`${homeOf(host)}open/${workload_id}`));
}

async function redeem(deps: Deps, to: Target, facts: SiteFacts): Promise<void> {
  const spent = new EinsoraError('access_ticket_spent');
  const ticket = await readTicket(to.request);
  if (ticket === null) return sendError(to, spent);
  const hash = digest(ticket);
  // A write is spent on what was given out alone.
  if (!(await deps.store.read(isTicketKnown, { hash }))) return sendError(to, spent);
  const { clock, random } = deps;
  const cookie = Buffer.from(random.bytes(32)).toString('base64url');
  const now = clock.now();
  const redeemed = await deps.store.transact('redeemAccessTicket', {
    ...{ hash, host: facts.host, now, idle_before: now - limits.session_idle_ms },
    session_id: makeId(now, random.bytes(10)),
    session_hash: digest(cookie),
    expires_at: now + limits.access_session_ms,
  });
  const { request_id, workload_id: workload } = facts;
  deps.log.info({ request_id, workload, opened: redeemed !== null }, 'a ticket was used');
  if (redeemed === null) return sendError(to, spent);
  const age_s = Math.floor(limits.access_session_ms / 1000);
  const attributes = `Path=/; Max-Age=${age_s}; HttpOnly; SameSite=Lax`;
  sendNothing(to, { 'set-cookie': `${deps.cookieName()}=${cookie}; ${attributes}` });
}

async function sendState(
  deps: Deps,
  to: Target,
  facts: SiteFacts,
  cookies: readonly string[],
): Promise<void> {
  const found = await deps.accesses.find(cookies, facts.host);
  if (found.is === 'nobody') return sendError(to, new EinsoraError('access_needed'));
  if (found.is === 'open') {
    return sendJson(to, 200, { state: 'running', is_ready: true, message: 'It runs.' });
  }
  const { row } = found;
  const { message } = stateError(row);
  sendJson(to, 200, { state: row.state, is_ready: row.current_epoch !== null, message });
}

/** A page that waited follows its workload to the new run (ADR-0044). */
async function renew(
  deps: Deps,
  to: Target,
  facts: SiteFacts,
  cookies: readonly string[],
): Promise<void> {
  const found = await deps.accesses.find(cookies, facts.host);
  if (found.is === 'nobody') return sendError(to, new EinsoraError('access_needed'));
  if (found.is === 'open') return sendNothing(to);
  const { row, cookie_hash } = found;
  if (row.current_epoch === null) return sendError(to, stateError(row));
  const now = deps.clock.now();
  const { ok } = await deps.store.transact('renewAccessSession', {
    ...{ hash: cookie_hash, host: facts.host, run_epoch: row.current_epoch, now },
    idle_before: now - limits.session_idle_ms,
  });
  if (ok === 0) return sendError(to, new EinsoraError('access_needed'));
  sendNothing(to);
}

/** The ticket of a body that is small, JSON and whole; null for anything else. */
async function readTicket(request: IncomingMessage): Promise<string | null> {
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) return null;
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > body_bytes) return null;
    }
    const { ticket } = JSON.parse(Buffer.concat(chunks).toString()) as { ticket?: unknown };
    return typeof ticket === 'string' && checkToken('eat_', ticket) ? ticket : null;
  } catch {
    return null;
  }
}
