/**
 * Under which host names this server answers: asked first, on the raw request, on every listener.
 *
 * Invariants: exactly one Host; only names that cannot be rebound by somebody else's DNS (localhost
 * and loopback literals, and `w-<id>.localhost`, one label deep and without a trailing dot) with
 * our own port; all else gets 421 before anything is routed.
 */
import type { IncomingMessage } from 'node:http';
import { isId } from '../core/ids.ts';

/** Our own name, or the site of a workload; `host` is the Host header in lower case. */
export type JudgedHost =
  | { kind: 'own'; host: string }
  | { kind: 'site'; host: string; workload_id: string };

/** Null: a host that is nobody's here. */
export type HostJudge = (request: IncomingMessage, port: number) => JudgedHost | null;

/** Remembers the last answer: who asks mostly asks the same host again. */
export function createHostJudge(): HostJudge {
  let last: { raw: string; port: number; judged: JudgedHost | null } | null = null;
  return (request, port) => {
    const raw = onlyHost(request.rawHeaders);
    if (raw === null || !isOriginForm(request.url ?? '')) return null;
    if (last?.raw !== raw || last.port !== port) last = { raw, port, judged: judgeName(raw, port) };
    return last.judged;
  };
}

function judgeName(raw: string, port: number): JudgedHost | null {
  const host = raw.toLowerCase();
  const match = /^([a-z0-9.-]+|\[::1\])(?::(\d{1,5}))?$/.exec(host);
  if (match?.[1] === undefined || !isPort(match[2], port)) return null;
  const [, name] = match;
  if (name === 'localhost' || name === '127.0.0.1' || name === '[::1]')
    return { kind: 'own', host };
  const workload_id = /^w-([0-9a-z]{26})\.localhost$/.exec(name)?.[1];
  if (workload_id === undefined || !isId(workload_id)) return null;
  return { kind: 'site', host, workload_id };
}

/** `:04600` is no port: a browser's Origin would never be the same text. */
function isPort(text: string | undefined, port: number): boolean {
  return text === undefined ? port === 80 : text === String(port);
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
