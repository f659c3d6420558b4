/**
 * Under which host names this server answers: asked first, on the raw request, on every listener.
 *
 * Invariants: exactly one Host; only names that cannot be rebound by somebody else's DNS (localhost
 * and loopback literals) with our own port; all else gets 421 before anything is routed.
 */
import type { IncomingMessage } from 'node:http';

export function isOwnHost(request: IncomingMessage, port: number): boolean {
  const host = onlyHost(request.rawHeaders);
  if (host === null) return false;
  const match = /^(localhost|127\.0\.0\.1|\[::1\])(?::(\d{1,5}))?$/i.exec(host);
  if (match === null) return false;
  return Number(match[2] ?? 80) === port && isOriginForm(request.url ?? '');
}

/** The one Host; read as it came, for taking all headers apart costs more than the rest of this. */
function onlyHost(raw: readonly string[]): string | null {
  let host: string | null = null;
  for (let at = 0; at < raw.length; at += 2) {
    if (raw[at]?.length !== 4 || raw[at]?.toLowerCase() !== 'host') continue;
    if (host !== null) return null;
    host = raw[at + 1] ?? null;
  }
  return host;
}

/** `GET http://other/` names a host of its own, past the Host header: not here. */
function isOriginForm(url: string): boolean {
  return url.startsWith('/');
}
