/**
 * Which headers pass between a browser and the program of a workload, either way.
 *
 * Invariants: pure; nothing of ours reaches the program (cookies, Authorization, forwarding
 * headers), and nothing of the program's reaches past its own site (cookies with a Domain or by our
 * names, HSTS, Alt-Svc, doors for other origins); hop-by-hop headers, and all that `Connection`
 * names, end here. Lists are flat, as `rawHeaders`: name, value, name, value.
 */

/** Ours, on any host and port: `einsora_session_4600`, `einsora_access_4600`, with any prefix. */
const own_cookie = /^(?:__host-|__secure-|__http-|__host-http-)?einsora_/i;

const hop_by_hop = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
];
const never_in = new Set([
  ...hop_by_hop,
  ...['authorization', 'cookie', 'host', 'forwarded', 'x-real-ip', 'x-request-id', 'expect'],
]);
const never_out = new Set([
  ...hop_by_hop,
  ...['strict-transport-security', 'alt-svc', 'cross-origin-resource-policy'],
  ...['cross-origin-opener-policy', 'referrer-policy', 'public-key-pins'],
]);

/** What every answer of a site says, whatever its program does. */
const always_out = [
  ...['content-security-policy', "frame-ancestors 'self'"],
  ...['cross-origin-resource-policy', 'same-origin'],
  ...['cross-origin-opener-policy', 'same-origin'],
  ...['referrer-policy', 'same-origin'],
];

export type ForProgram = {
  host: string;
  request_id: string;
  /** Cookies that are the program's own, as `foreignCookies` leaves them. */
  cookies: string;
  /** The whole of the Authorization header; null for none. */
  authorization: string | null;
  expects_continue: boolean;
  /** For an opening handshake of a WebSocket. */
  upgrade: boolean;
  /** The body comes in chunks. */
  chunked: boolean;
};

/** The head of the program's request. */
export function headersForProgram(raw: readonly string[], how: ForProgram): string[] {
  const out = ['host', how.host];
  const named = namedByConnection(raw);
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const value = raw[at + 1] ?? '';
    const key = name.toLowerCase();
    if (never_in.has(key) || named.has(key) || isOurs(key)) continue;
    out.push(name, value);
  }
  if (how.cookies !== '') out.push('cookie', how.cookies);
  out.push('x-request-id', how.request_id);
  if (how.authorization !== null) out.push('authorization', how.authorization);
  if (how.expects_continue) out.push('expect', '100-continue');
  if (how.chunked) out.push('transfer-encoding', 'chunked');
  if (how.upgrade) out.push('connection', 'Upgrade', 'upgrade', 'websocket');
  return out;
}

/** The head of the browser's answer. `origin` is the site's own. */
export function headersForBrowser(raw: readonly string[], origin: string): string[] {
  const out: string[] = [];
  const named = namedByConnection(raw);
  const opens = opensToOthers(raw, origin);
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const value = raw[at + 1] ?? '';
    const key = name.toLowerCase();
    if (never_out.has(key) || named.has(key) || isOurs(key)) continue;
    if (key === 'set-cookie' && !isOwnOfSite(value)) continue;
    if (opens && key.startsWith('access-control-')) continue;
    out.push(name, value);
  }
  out.push(...always_out);
  return out;
}

/** Trailers: what would be refused in a head, and whatever frames or opens, has no place there. */
export function trailersOf(raw: readonly string[]): [string, string][] {
  const out: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const key = (raw[at] ?? '').toLowerCase();
    const bad = never_in.has(key) || never_out.has(key) || isOurs(key);
    if (!bad && !/^(?:set-cookie|content-|access-control-)/.test(key)) {
      out.push([raw[at] ?? '', raw[at + 1] ?? '']);
    }
  }
  return out;
}

/** The values that a cookie of this name was sent with: a page of the site may add others. */
export function cookieValues(header: string | undefined, name: string): string[] {
  if (header === undefined || !header.includes(name)) return [];
  const values: string[] = [];
  for (const part of header.split(';')) {
    const text = part.trim();
    if (text.startsWith(name) && text[name.length] === '=')
      values.push(text.slice(name.length + 1));
  }
  return values;
}

/** Of all that a browser sent: what is not ours. */
export function foreignCookies(header: string | undefined): string {
  if (header === undefined) return '';
  const kept = header
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part !== '' && !own_cookie.test(part));
  return kept.join('; ');
}

const none: ReadonlySet<string> = new Set();
/** What frames a message or says whose it is passes, even where somebody names it as a hop's. */
const never_named = new Set(['host', 'content-length', 'cookie', 'set-cookie']);

function namedByConnection(raw: readonly string[]): ReadonlySet<string> {
  let named: Set<string> | null = null;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    if (raw[at]?.length !== 10 || raw[at]?.toLowerCase() !== 'connection') continue;
    for (const part of (raw[at + 1] ?? '').split(',')) {
      const name = part.trim().toLowerCase();
      if (name === 'keep-alive' || name === 'close' || never_named.has(name)) continue;
      named ??= new Set();
      named.add(name);
    }
  }
  return named ?? none;
}

function isOurs(key: string): boolean {
  return key.startsWith('x-forwarded-') || key.startsWith('x-einsora-') || key.startsWith('proxy-');
}

/** A cookie of the very host, by a name that is not ours. */
function isOwnOfSite(set_cookie: string): boolean {
  if (own_cookie.test(set_cookie.trimStart())) return false;
  return !set_cookie
    .split(';')
    .slice(1)
    .some((attribute) => /^\s*domain\s*(?:=|$)/i.test(attribute));
}

function opensToOthers(raw: readonly string[], origin: string): boolean {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const is_door = raw[at]?.toLowerCase() === 'access-control-allow-origin';
    if (is_door && raw[at + 1] !== origin) return true;
  }
  return false;
}
