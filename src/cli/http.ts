/**
 * One HTTP request, with node:http and not fetch: fetch gives up on a stream that was silent for
 * 300 s, and takes longer to load. https loads only where it is asked for.
 *
 * Invariants: a whole body is at most `body_limit_bytes`; `signal` ends the request at any time; a
 * body that was cut off is an error, never a short answer.
 */
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';

export type HttpRequest = {
  method: string;
  url: string;
  headers: Record<string, string>;
  body?: string;
  signal?: AbortSignal;
};

export type HttpAnswer = {
  status: number;
  request_id: string | null;
  /** The cookies that it sets, without their attributes. */
  cookies: string[];
  text: string;
};

const body_limit_bytes = 64 * 1024 * 1024;

/** Resolves with the head of the response; its body is still to be read. */
export async function openRequest(options: HttpRequest): Promise<IncomingMessage> {
  const { method, url, headers, body, signal } = options;
  const send = url.startsWith('https:') ? (await import('node:https')).request : request;
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const sent = send(url, {
      method,
      headers: { ...headers, ...length },
      ...(signal === undefined ? {} : { signal }),
    });
    sent.on('response', resolve);
    sent.on('error', reject);
    sent.end(body);
  });
}

export type Upgraded = { socket: Socket; head: Buffer };

/** Asks to leave HTTP: the connection, or the answer that refuses it. */
export async function openUpgrade(
  options: Pick<HttpRequest, 'url' | 'headers'>,
): Promise<{ upgraded: Upgraded } | { refused: IncomingMessage }> {
  const { url, headers } = options;
  const send = url.startsWith('https:') ? (await import('node:https')).request : request;
  return new Promise((resolve, reject) => {
    const sent = send(url, { headers });
    sent.on('upgrade', (_response, socket, head) => {
      sent.off('error', reject);
      resolve({ upgraded: { socket: socket as Socket, head } });
    });
    sent.on('response', (refused) => resolve({ refused }));
    sent.on('error', reject);
    sent.end();
  });
}

/** Sends a request and reads the whole answer. */
export async function sendRequest(options: HttpRequest): Promise<HttpAnswer> {
  return readWhole(await openRequest(options));
}

export async function readWhole(response: IncomingMessage): Promise<HttpAnswer> {
  return {
    status: response.statusCode ?? 0,
    request_id: requestIdOf(response),
    cookies: (response.headers['set-cookie'] ?? []).map((cookie) => cookie.split(';')[0] ?? ''),
    text: await readText(response),
  };
}

export async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    const buffer = chunk as Buffer;
    bytes += buffer.length;
    if (bytes > body_limit_bytes) {
      response.destroy();
      throw new Error('the answer is too large');
    }
    chunks.push(buffer);
  }
  return Buffer.concat(chunks).toString('utf8');
}

export function requestIdOf(response: IncomingMessage): string | null {
  const value = response.headers['x-request-id'];
  return typeof value === 'string' ? value : null;
}

/** The connection broke after it was made: whether the request had its effect is not known. */
export function isBroken(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'ECONNRESET' || code === 'EPIPE' || code === 'ECONNABORTED';
}

/** Nobody listens. */
export function isRefused(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EHOSTUNREACH';
}
