/**
 * The API, as commands call it: one method for each route that the command line uses.
 *
 * Invariants: what changes something and has a key (launch, start, stop, keys) carries one
 * Idempotency-Key for all its tries, so a repeat after a broken connection has the effect of one
 * call; each call ends within 30 s; every failure is a CliError. Types come from the contract; its
 * schemas are not loaded, which keeps the start short.
 */
import type { ErrorBody } from '../contract/errors.ts';
import type { Catalog, Machine } from '../contract/machines.ts';
import type { RoomMade } from '../contract/make-room.ts';
import type { EndpointKey, Launch, Plan, Workload, WorkloadEvent } from '../contract/workloads.ts';
import { CliError } from './cli-error.ts';
import {
  type Connection,
  findConnection,
  type Place,
  unreachablePlace,
  withWayBack,
} from './connection.ts';
import { exitOfAnswer } from './exit-codes.ts';
import {
  type HttpAnswer,
  isBroken,
  isRefused,
  openRequest,
  openUpgrade,
  readWhole,
  sendRequest,
  type Upgraded,
} from './http.ts';
import type { Context } from './io.ts';

export type Page<T> = { items: T[]; next_cursor: string | null };
export type LogChunk = { text: string; next_offset: number; end: boolean; run_epoch: number };
export type NewKey = EndpointKey & { key: string };

const call_timeout_ms = 30_000;
const page_rows = 200;
/** Pages read of one list before the rest is left out. */
const page_limit = 50;

export type Client = ReturnType<typeof openClient>;

/** Opens the API of the control plane that is meant, signed in. Throws CliError. */
export function openClient(context: Context) {
  const found = findConnection(context.config);
  const { call, stream, upgrade } = createCaller(context, found);
  const of = (workload: string, rest = '') =>
    `/v1/workloads/${encodeURIComponent(workload)}${rest}`;
  return {
    url: found.url,
    /** For the commands of an area, which know their own routes. */
    call,
    /** The head of an answer that stays open. Rejects with whatever went wrong. */
    stream,
    /** Bytes as they are, both ways, over a connection that leaves HTTP. */
    upgrade,
    plan: (body: Launch) => call<Plan>('POST', '/v1/plan', { body }),
    launch: (body: Launch) => call<Workload>('POST', '/v1/workloads', { body, once: true }),
    /** Newest first, all pages. */
    list: (deleted: boolean) =>
      allPages((cursor) =>
        call<Page<Workload>>('GET', withQuery('/v1/workloads', { deleted, cursor })),
      ),
    show: (workload: string) => call<Workload>('GET', of(workload)),
    start: (workload: string) => call<Workload>('POST', of(workload, '/start'), { once: true }),
    stop: (workload: string) => call<Workload>('POST', of(workload, '/stop'), { once: true }),
    makeRoom: (workload: string) => call<RoomMade>('POST', of(workload, '/make-room')),
    remove: (workload: string) => call<Workload>('DELETE', of(workload)),
    events: (workload: string, cursor: string | null) =>
      call<Page<WorkloadEvent>>('GET', withQuery(of(workload, '/events'), { cursor })),
    logs: (workload: string, offset: number, replica?: number) =>
      call<LogChunk>(
        'GET',
        `${of(workload, '/logs')}?offset=${offset}${replica === undefined ? '' : `&replica=${replica}`}`,
      ),
    createKey: (workload: string, expires_in_ms: number | null) =>
      call<NewKey>('POST', of(workload, '/keys'), {
        body: expires_in_ms === null ? {} : { expires_in_ms },
        once: true,
      }),
    revokeKey: (workload: string, key_id: string) =>
      call<null>('DELETE', of(workload, `/keys/${encodeURIComponent(key_id)}`)),
    machines: async () => (await call<{ items: Machine[] }>('GET', '/v1/machines')).items,
    refreshMachine: (machine: string) =>
      call<Machine>('POST', `/v1/machines/${encodeURIComponent(machine)}/refresh`),
    catalog: () => call<Catalog>('GET', '/v1/catalog'),
    createSignInLink: () => call<{ url: string }>('POST', '/v1/sign-in-links'),
  };
}

/**
 * Calls the API at a place without being signed in. `mark`: the cookie by which it is known there
 * as one that signed in before, which guessers of its name cannot slow; it may be given a new one.
 */
export function openStranger(context: Context, url: string, mark: string | null) {
  let cookie = mark;
  const { call } = createCaller(context, { url, token: null, context: null, is_local: false });
  const onCookies = (cookies: string[]) => {
    cookie = cookies.find((one) => one.startsWith('einsora_known_')) ?? cookie;
  };
  return {
    call: <T>(method: string, path: string, options: CallOptions = {}) =>
      call<T>(method, path, { ...options, cookie, onCookies }),
    mark: () => cookie,
  };
}

type CallOptions = {
  body?: unknown;
  once?: boolean;
  cookie?: string | null;
  onCookies?: (cookies: string[]) => void;
};

function createCaller(context: Context, place: Connection | Stranger) {
  const { url: base, token } = place;
  async function attempt(
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: string,
  ) {
    const deadline = new AbortController();
    const cancel = context.io.clock.after(call_timeout_ms, () => deadline.abort());
    try {
      return await sendRequest({
        method,
        url: new URL(path, base).href,
        headers,
        signal: deadline.signal,
        ...(body === undefined ? {} : { body }),
      });
    } finally {
      cancel();
    }
  }
  async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    const headers: Record<string, string> = {
      ...(token === null ? {} : { authorization: `Bearer ${token.reveal()}` }),
      accept: 'application/json',
    };
    if (options.body !== undefined) headers['content-type'] = 'application/json';
    if (options.once) headers['idempotency-key'] = newKey(context);
    if (options.cookie) headers.cookie = options.cookie;
    const body = options.body === undefined ? undefined : JSON.stringify(options.body);
    try {
      const answer = await attempt(method, path, headers, body).catch((error: unknown) => {
        if (!isBroken(error)) throw error;
        return attempt(method, path, headers, body);
      });
      options.onCookies?.(answer.cookies);
      return readAnswer<T>(answer);
    } catch (error) {
      throw explain(context, place, error);
    }
  }
  function stream(path: string, signal: AbortSignal) {
    const headers: Record<string, string> =
      token === null ? {} : { authorization: `Bearer ${token.reveal()}` };
    return openRequest({ method: 'GET', url: new URL(path, base).href, headers, signal });
  }
  async function upgrade(path: string, protocol: string): Promise<Upgraded> {
    const headers = {
      ...(token === null ? {} : { authorization: `Bearer ${token.reveal()}` }),
      ...{ connection: 'Upgrade', upgrade: protocol },
    };
    try {
      const answer = await openUpgrade({ url: new URL(path, base).href, headers });
      if ('upgraded' in answer) return answer.upgraded;
      return readAnswer<never>(await readWhole(answer.refused));
    } catch (error) {
      throw explain(context, place, error);
    }
  }
  return { call, stream, upgrade };
}

/** Turns an answer into its value, or into the failure that it describes. */
export function readAnswer<T>(answer: HttpAnswer): T {
  const body = answer.text === '' ? null : parseJson(answer.text);
  if (answer.status >= 200 && answer.status < 300) {
    if (body === null && answer.text !== '') throw new Error('what answers is not Einsora');
    return body as T;
  }
  const { error } = (body ?? {}) as Partial<ErrorBody>;
  const code = error?.code ?? 'internal';
  throw new CliError({
    code,
    message: error?.message ?? `The control plane answered with status ${answer.status}.`,
    fix: error?.fix ?? null,
    details: error?.details ?? {},
    request_id: error?.request_id ?? answer.request_id,
    exit: exitOfAnswer(answer.status, code),
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

type Stranger = Place & { token: null };

function explain(context: Context, place: Connection | Stranger, error: unknown): CliError {
  if (error instanceof CliError) return withWayBack(place, error);
  const failure = unreachablePlace(context.config, place);
  if (isRefused(error)) return failure;
  const why = error instanceof Error && error.name === 'AbortError' ? 'no answer in 30 s' : null;
  return new CliError({
    code: failure.code,
    message: `${failure.message.replace(/\.$/, '')} (${why ?? (error as Error).message}).`,
    fix: failure.fix,
    exit: failure.exit,
  });
}

type PageQuery = {
  deleted?: boolean;
  tenant?: string | undefined;
  user?: string | undefined;
  cursor: string | null;
};

/** Everything of a list, all pages. */
export async function allPages<T>(read: (cursor: string | null) => Promise<Page<T>>): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < page_limit; page += 1) {
    const { items: more, next_cursor }: Page<T> = await read(cursor);
    items.push(...more);
    if (next_cursor === null) break;
    cursor = next_cursor;
  }
  return items;
}

export function withQuery(path: string, query: PageQuery): string {
  const parts = [`limit=${page_rows}`];
  if (query.deleted === true) parts.push('deleted=true');
  for (const name of ['tenant', 'user', 'cursor'] as const) {
    const value = query[name];
    if (value != null) parts.push(`${name}=${encodeURIComponent(value)}`);
  }
  return `${path}?${parts.join('&')}`;
}

function newKey(context: Context): string {
  return Buffer.from(context.io.random.bytes(16)).toString('hex');
}
