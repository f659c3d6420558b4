/**
 * What a request to a site says of where it comes from, and whether that is let in.
 *
 * Invariants: pure; a WebSocket must say the site's exact Origin, and nothing else that contradicts
 * it; so must a write;
 * what another site may do is go there with a GET in a window of its own, and nothing else
 * (Chromium sends no Sec-Fetch-* with a WebSocket, so that check rests on the Origin).
 */
import type { IncomingMessage } from 'node:http';

/** A GET or HEAD of a page, in a tab or a window. */
export function isNavigation(request: IncomingMessage): boolean {
  const { method, headers } = request;
  if (method !== 'GET' && method !== 'HEAD') return false;
  const mode = headers['sec-fetch-mode'];
  if (mode !== undefined) return mode === 'navigate';
  return /\btext\/html\b/.test(headers.accept ?? '');
}

/** May this request act on the site whose origin this is? */
export function isWelcome(request: IncomingMessage, origin: string): boolean {
  const { method, headers } = request;
  const site = headers['sec-fetch-site'];
  const reads = method === 'GET' || method === 'HEAD';
  if (!reads) return hasOrigin(request, origin) && (site === undefined || site === 'same-origin');
  if (site === undefined || site === 'same-origin' || site === 'none') return true;
  // A link from elsewhere, in a tab of its own: a frame or a script of another site is none. Where
  // a service worker of the site fetches what a person went to, Chromium says `empty`.
  if (headers['sec-fetch-mode'] !== 'navigate') return false;
  const dest = headers['sec-fetch-dest'];
  return dest === 'document' || dest === 'empty';
}

export function isWelcomeSocket(request: IncomingMessage, origin: string): boolean {
  const site = request.headers['sec-fetch-site'];
  return hasOrigin(request, origin) && (site === undefined || site === 'same-origin');
}

/** Exactly one, and exactly this one. */
function hasOrigin(request: IncomingMessage, origin: string): boolean {
  if (request.headers.origin !== origin) return false;
  return request.headersDistinct.origin?.length === 1;
}
