/**
 * HTTP to places that a user named: the only way by which models are asked for and fetched.
 *
 * Invariants: https to public addresses on port 443 and nothing else, unless the operator vouches
 * for an origin; every address of a name is looked at, the connection goes to one that was, and the
 * far end is looked at once more; each redirect is treated as a new URL (3 at most, none away from
 * https); a token goes to the origin that it is for and to no other; an answer that does not begin,
 * or does not go on, ends.
 */
import type { LookupAddress } from 'node:dns';
import { lookup as systemLookup } from 'node:dns/promises';
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { type Clock, withDeadline } from '../lib/clock.ts';
import type { Secret } from '../lib/secret.ts';
import { isPublicAddress, literalAddress } from './source-address.ts';
import { SourceError, shownUrl } from './source-error.ts';
import { readRetryAfter, whyUnreachable } from './source-failure.ts';

export type Net = {
  clock: Clock;
  /** Origins that the operator vouches for: any address, any port, http too. */
  trusted_origins: readonly string[];
  /** Every address of a host name; the system's own resolver unless told. */
  lookup?: (host: string) => Promise<LookupAddress[]>;
  /** Certificates to trust in place of the system's. */
  ca?: string;
  patience?: Patience;
};

export type Patience = {
  /** From the request to the head of the answer. */
  answer_ms: number;
  /** In each such span at least `least_bytes` must come. */
  window_ms: number;
  least_bytes: number;
  /** The first wait before another try; it doubles. */
  retry_ms: number;
};

export const source_patience: Patience = {
  answer_ms: 30_000,
  window_ms: 30_000,
  least_bytes: 16 * 1024,
  retry_ms: 1000,
};

export type Ask = {
  method: 'GET' | 'HEAD';
  url: URL;
  headers?: Record<string, string>;
  /** Sent to `origin` alone. */
  token?: { secret: Secret; origin: string } | null;
  /** Redirects to follow: all, or those within one origin (others are the answer). */
  follow: 'all' | 'same-origin';
  signal: AbortSignal;
};

export type Answer = {
  status: number;
  headers: IncomingHttpHeaders;
  /** To be read or destroyed. */
  body: IncomingMessage;
  /** Where it came from, after redirects. */
  url: URL;
  /** Ends it. */
  signal: AbortSignal;
};

const redirects_at_most = 3;

export async function ask(net: Net, asked: Ask): Promise<Answer> {
  let url = asked.url;
  for (let hop = 0; ; hop += 1) {
    const answer = await askOnce(net, asked, url);
    const target = redirectOf(answer, url);
    if (target === null) return answer;
    if (asked.follow === 'same-origin' && target.origin !== url.origin) return answer;
    answer.body.destroy();
    if (hop >= redirects_at_most) throw refusedRedirect(url, target, 'that would be one too many');
    if (url.protocol === 'https:' && target.protocol !== 'https:') {
      throw refusedRedirect(url, target, 'that is not encrypted');
    }
    url = target;
  }
}

/** Where an answer sends on to, or null. */
function redirectOf(answer: Answer, url: URL): URL | null {
  const { status, headers } = answer;
  if (![301, 302, 303, 307, 308].includes(status) || headers.location === undefined) return null;
  const target = URL.parse(headers.location, url.href);
  if (target !== null) return target;
  answer.body.destroy();
  throw new SourceError('source_redirect_refused', {
    ...{ host: url.host, url: shownUrl(url) },
    ...{ target: 'nowhere', why: 'it is no URL' },
  });
}

function refusedRedirect(url: URL, target: URL, why: string): SourceError {
  const details = { host: url.host, url: shownUrl(url), target: shownUrl(target), why };
  return new SourceError('source_redirect_refused', details);
}

async function askOnce(net: Net, asked: Ask, url: URL): Promise<Answer> {
  const addresses = await vet(net, url);
  asked.signal.throwIfAborted();
  const { token } = asked;
  const authorization =
    token && token.origin === url.origin ? `Bearer ${token.secret.reveal()}` : null;
  const headers = {
    'user-agent': 'einsora',
    // A compressed body could not be resumed, counted or checked.
    'accept-encoding': 'identity',
    ...asked.headers,
    ...(authorization === null ? {} : { authorization }),
  };
  const options = {
    ...{ method: asked.method, headers, agent: false as const, signal: asked.signal },
    ...(addresses === null ? {} : { lookup: fixedLookup(addresses) }),
    ...(net.ca === undefined ? {} : { ca: net.ca }),
  };
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  const { answer_ms } = net.patience ?? source_patience;
  return new Promise<Answer>((resolve, reject) => {
    const sent = send(url, options);
    const cancel = net.clock.after(answer_ms, () => sent.destroy(new Error('no answer came')));
    sent.on('response', (body) => {
      cancel();
      const far = body.socket.remoteAddress ?? '';
      if (addresses !== null && !isPublicAddress(plainAddress(far))) {
        body.destroy();
        return reject(deniedAddress(url, far));
      }
      const { headers } = body;
      resolve({ status: body.statusCode ?? 0, headers, body, url, signal: asked.signal });
    });
    sent.on('error', (error) => {
      cancel();
      reject(asked.signal.aborted ? asked.signal.reason : unreachable(url, error));
    });
    sent.end();
  });
}

/** A socket of both families shows IPv4 in the form of IPv6. */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '');
}

/** The addresses to connect to; null where the operator vouches for the origin. */
async function vet(net: Net, url: URL): Promise<LookupAddress[] | null> {
  const refuse = (why: string) => new SourceError('source_refused', { url: shownUrl(url), why });
  if (url.username !== '' || url.password !== '') throw refuse('a URL with a password in it');
  if (net.trusted_origins.includes(url.origin)) return null;
  if (url.protocol !== 'https:') throw refuse('only https is');
  if (url.port !== '') throw refuse(`port ${url.port} is not the port of https`);
  const literal = literalAddress(url);
  if (literal !== null) {
    if (!isPublicAddress(literal)) throw deniedAddress(url, literal);
    return [{ address: literal, family: literal.includes(':') ? 6 : 4 }];
  }
  const find = net.lookup ?? ((host: string) => systemLookup(host, { all: true }));
  const { answer_ms } = net.patience ?? source_patience;
  const late = 'its name could not be looked up in time';
  const found = await withDeadline(net.clock, answer_ms, late, find(url.hostname)).catch(
    (error: unknown) => {
      throw unreachable(url, error);
    },
  );
  // One bad address refuses the name: which of them the next lookup gives cannot be known.
  const bad = found.find(({ address }) => !isPublicAddress(address));
  if (bad !== undefined) throw deniedAddress(url, bad.address);
  if (found.length === 0) throw unreachable(url, new Error('its name has no address'));
  return found;
}

function fixedLookup(addresses: LookupAddress[]): LookupFunction {
  const [first] = addresses;
  return (_host, options, done) => {
    if (options.all === true) done(null, addresses);
    else done(null, first?.address ?? '', first?.family ?? 4);
  };
}

function deniedAddress(url: URL, address: string): SourceError {
  const { host, origin } = url;
  return new SourceError('source_address_refused', { host, address, origin });
}

function unreachable(url: URL, error: unknown): SourceError {
  const { why, temporary } = whyUnreachable(error);
  const details = { host: url.host, url: shownUrl(url), why };
  return new SourceError('source_unreachable', details, { temporary, cause: error });
}

/** The bytes of an answer, for as long as enough of them come; `what` is shown where they do not. */
export async function* bytesOf(net: Net, answer: Answer, what: string): AsyncGenerator<Buffer> {
  const { window_ms, least_bytes } = net.patience ?? source_patience;
  const { body, url } = answer;
  const stalled = new Error('it does not go on');
  let came = 0;
  // While we write to a slow disk, nothing is asked of the source.
  let waiting = false;
  let cancel = () => {};
  const watch = () => {
    cancel = net.clock.after(window_ms, () => {
      if (waiting && came < least_bytes) return void body.destroy(stalled);
      came = 0;
      watch();
    });
  };
  watch();
  try {
    waiting = true;
    for await (const chunk of body) {
      waiting = false;
      came += (chunk as Buffer).length;
      yield chunk as Buffer;
      waiting = true;
    }
  } catch (error) {
    answer.signal.throwIfAborted();
    const { why } = error === stalled ? { why: stalled.message } : whyUnreachable(error);
    const details = { what, host: url.host, url: shownUrl(url), why };
    throw new SourceError('source_unreachable', details, { temporary: true, cause: error });
  } finally {
    cancel();
    body.destroy();
  }
}

/** A whole small body as text; null where it is longer than `limit_bytes`. */
export async function textOf(
  net: Net,
  answer: Answer,
  limit_bytes: number,
): Promise<string | null> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of bytesOf(net, answer, shownUrl(answer.url))) {
    length += chunk.length;
    if (length > limit_bytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** How long an answer asks to wait, or null. */
export function retryAfter(net: Net, answer: Answer): number | null {
  return readRetryAfter(answer.headers['retry-after'], net.clock.now());
}
