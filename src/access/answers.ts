/**
 * What a site's host answers by itself: pages, JSON in the API's shape, refused handshakes.
 *
 * Invariants: never kept by anybody, never framed, never sniffed; a program that asks (anything but
 * a navigation) gets JSON; a body that nobody will read ends the connection.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { EinsoraError } from '../contract/errors.ts';
import type { Page } from './pages.ts';
import type { SiteFacts } from './site.ts';

const on_every_answer = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
};

export type Target = {
  request: IncomingMessage;
  response: ServerResponse;
  facts: Pick<SiteFacts, 'request_id'>;
};

type Headers = Record<string, string>;

export function sendPage(to: Target, status: number, page: Page, more: Headers = {}): void {
  const headers = { 'content-security-policy': page.policy, ...more };
  send(to, status, 'text/html; charset=utf-8', page.html, headers);
}

export function sendJson(to: Target, status: number, body: unknown, more: Headers = {}): void {
  send(to, status, 'application/json; charset=utf-8', Buffer.from(JSON.stringify(body)), more);
}

export function sendError(to: Target, error: EinsoraError, more: Headers = {}): void {
  sendJson(to, error.status, error.body(to.facts.request_id), {
    ...(error.status === 503 ? { 'retry-after': '2' } : {}),
    ...more,
  });
}

export function sendNothing(to: Target, more: Headers = {}): void {
  const { response, facts } = to;
  response.writeHead(204, { ...on_every_answer, 'x-request-id': facts.request_id, ...more });
  response.end();
}

function send(to: Target, status: number, type: string, body: Buffer, more: Headers): void {
  const { request, response, facts } = to;
  if (response.headersSent || response.destroyed) return void response.destroy();
  const is_read = request.complete || !hasBody(request);
  response.writeHead(status, {
    ...on_every_answer,
    'content-type': type,
    'content-length': String(body.length),
    'x-request-id': facts.request_id,
    ...(is_read ? {} : { connection: 'close' }),
    ...more,
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

export function hasBody({ headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  return headers['content-length'] !== undefined && headers['content-length'] !== '0';
}

/** Refuses a handshake in the API's shape. */
export function refuseSocket(socket: Duplex, error: EinsoraError, request_id: string): void {
  if (socket.destroyed) return;
  const body = JSON.stringify(error.body(request_id));
  const lines = [
    `HTTP/1.1 ${error.status} Refused`,
    ...Object.entries(on_every_answer).map(([name, value]) => `${name}: ${value}`),
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${request_id}`,
    'connection: close',
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}
