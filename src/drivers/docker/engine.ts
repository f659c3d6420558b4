/**
 * A small client of the Docker Engine's socket, over node:http (ADR-0042).
 *
 * Invariants: every call has a deadline and a bounded answer; the version of the API is agreed on
 * with the engine before the first call, and again after it was away; a refusal (EngineRefusal) and
 * no answer (EngineDown) are told apart. Sockets are never shared between calls, so that none dies
 * with a connection that an engine's restart has cut.
 */
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { Clock } from '../../lib/clock.ts';
import { isErrno } from '../../lib/files.ts';
import { EngineDown, EngineRefusal, oneLine } from './engine-error.ts';

/** The oldest that has what the driver needs, and the newest whose changes were read. */
export const api_range = { oldest: '1.41', newest: '1.50' } as const;

export type EngineVersion = {
  /** The version of the API that both speak. */
  api: string;
  engine: string;
  /** What the engine calls itself, such as "Engine" or "Podman Engine". */
  product: string;
  os: string;
  kernel: string;
};

export type Call = {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  query?: Record<string, string | number | undefined>;
  headers?: Record<string, string>;
  /** Sent as JSON, or as it is. */
  json?: unknown;
  body?: Buffer | Readable;
  timeout_ms?: number;
  signal?: AbortSignal;
};

export type Engine = {
  readonly socket_path: string;
  version(): Promise<EngineVersion>;
  /** The JSON of an answer; null where it has none. Rejects with EngineRefusal or EngineDown. */
  json(call: Call): Promise<unknown>;
  /** The answer, its body not read yet: its deadline is for the headers. */
  open(call: Call): Promise<IncomingMessage>;
  /** The raw connection of a call that leaves HTTP. */
  hijack(call: Call): Promise<Duplex>;
};

const default_timeout_ms = 15_000;
const answer_limit_bytes = 16 * 1024 * 1024;
const error_limit_bytes = 16 * 1024;

export function createEngine(socket_path: string, clock: Clock): Engine {
  let agreed: Promise<EngineVersion> | null = null;

  function version(): Promise<EngineVersion> {
    const asking = agreed ?? agreeOnVersion(socket_path, clock);
    agreed = asking;
    asking.catch(() => forget(asking));
    return asking;
  }

  function forget(one: Promise<EngineVersion> | null): void {
    if (agreed === one) agreed = null;
  }

  async function ask(call: Call, upgrade: boolean): Promise<Reply> {
    const speaking = version();
    const { api } = await speaking;
    try {
      return await exchange(socket_path, { ...call, path: `/v${api}${call.path}` }, clock, upgrade);
    } catch (error) {
      const is_version = error instanceof EngineRefusal && /client version/i.test(error.message);
      if (error instanceof EngineDown || is_version) forget(speaking);
      throw error;
    }
  }

  return {
    socket_path,
    version,
    async json(call) {
      const { answer, arm } = await ask(call, false);
      return parse(await textOf(answer, answer_limit_bytes, arm));
    },
    async open(call) {
      const { answer, arm } = await ask(call, false);
      arm.off();
      return answer;
    },
    async hijack(call) {
      const { answer, arm, socket } = await ask(call, true);
      arm.off();
      if (socket !== null) return socket;
      answer.destroy();
      throw new EngineDown('garbled', 'the engine did not hand over the connection');
    },
  };
}

/** What an engine says of itself, before anything was agreed on. */
export type EngineSaid = Omit<EngineVersion, 'api'> & { newest_api: string; oldest_api: string };

/** Asks an engine for its versions; rejects with EngineDown where there is none. */
export async function askVersion(
  socket_path: string,
  clock: Clock,
  timeout_ms = default_timeout_ms,
): Promise<EngineSaid> {
  const call: Call = { method: 'GET', path: '/version', timeout_ms };
  const { answer, arm } = await exchange(socket_path, call, clock, false).catch((error) => {
    if (!(error instanceof EngineRefusal)) throw error;
    throw new EngineDown('garbled', `what answers on ${socket_path} is no Docker Engine`, error);
  });
  const said = parse(await textOf(answer, answer_limit_bytes, arm)) as Record<string, unknown>;
  const text = (name: string) => (typeof said?.[name] === 'string' ? String(said[name]) : '');
  if (!/^\d+\.\d+$/.test(text('ApiVersion'))) {
    throw new EngineDown('garbled', `what answers on ${socket_path} is no Docker Engine`);
  }
  const [component] = Array.isArray(said.Components) ? said.Components : [];
  return {
    newest_api: text('ApiVersion'),
    oldest_api: text('MinAPIVersion'),
    engine: text('Version').slice(0, 40),
    product: String((component as { Name?: unknown } | undefined)?.Name ?? 'Engine').slice(0, 40),
    os: text('Os'),
    kernel: text('KernelVersion'),
  };
}

async function agreeOnVersion(socket_path: string, clock: Clock): Promise<EngineVersion> {
  const { newest_api, oldest_api, ...said } = await askVersion(socket_path, clock);
  return { ...said, api: agree(newest_api, oldest_api) };
}

/** The newest version of the API that both speak. */
export function agree(newest_there: string, oldest_there: string): string {
  const { oldest, newest } = api_range;
  if (isOlder(newest_there, oldest)) {
    const why = `it speaks API ${newest_there}, and ${oldest} is needed`;
    throw new EngineDown('api', `this Docker Engine is too old: ${why} (Docker 20.10 or later)`);
  }
  if (oldest_there !== '' && isOlder(newest, oldest_there)) {
    const why = `it wants API ${oldest_there} or later, and this version speaks ${newest}`;
    throw new EngineDown('api', `this Docker Engine is too new: ${why}`);
  }
  return isOlder(newest_there, newest) ? newest_there : newest;
}

export function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [than_major = 0, than_minor = 0] = than.split('.').map(Number);
  return major < than_major || (major === than_major && minor < than_minor);
}

/** A deadline that is still running: `off` ends it. */
type Armed = { off(): void };
type Reply = { answer: IncomingMessage; arm: Armed; socket: Duplex | null };

function exchange(socket_path: string, call: Call, clock: Clock, upgrade: boolean): Promise<Reply> {
  const { method, json, signal, timeout_ms = default_timeout_ms } = call;
  const body = json === undefined ? call.body : Buffer.from(JSON.stringify(json));
  return new Promise((resolve, reject) => {
    const asked = request({
      socketPath: socket_path,
      method,
      path: call.path + queryOf(call.query),
      headers: headersOf(call, body, upgrade),
      agent: false,
      ...(signal === undefined ? {} : { signal }),
    });
    const off = clock.after(timeout_ms, () => {
      const within = `within ${timeout_ms / 1000} s`;
      asked.destroy(new EngineDown('silent', `the engine did not answer ${within}`));
    });
    const fail = (error: unknown) => {
      off();
      reject(asDown(error, socket_path));
    };
    asked.on('error', fail);
    const take = (answer: IncomingMessage, socket: Duplex | null) => {
      resolve({ answer, arm: { off }, socket });
    };
    asked.once('upgrade', (answer, socket, head) => {
      if (head.length > 0) socket.unshift(head);
      take(answer, socket);
    });
    asked.once('response', (answer) => {
      const status = answer.statusCode ?? 0;
      // Some engines hand over the connection with 200 and no word of an upgrade.
      if (status < 400) return take(answer, null);
      textOf(answer, error_limit_bytes, { off }).then(
        (text) => reject(new EngineRefusal(status, messageOf(text, status))),
        fail,
      );
    });
    send(asked, body, fail);
  });
}

function send(asked: ClientRequest, body: Call['body'], fail: (error: unknown) => void): void {
  if (body === undefined || Buffer.isBuffer(body)) {
    asked.end(body);
    return;
  }
  body.once('error', (error) => {
    asked.destroy();
    fail(error);
  });
  body.pipe(asked);
}

function headersOf(call: Call, body: Call['body'], upgrade: boolean): Record<string, string> {
  return {
    // Docker ignores the name; without one Node would send the path of the socket.
    host: 'docker',
    ...call.headers,
    ...(body === undefined
      ? {}
      : { 'content-type': call.json === undefined ? 'application/x-tar' : 'application/json' }),
    ...(Buffer.isBuffer(body) ? { 'content-length': String(body.length) } : {}),
    ...(upgrade ? { connection: 'Upgrade', upgrade: 'tcp' } : {}),
  };
}

function queryOf(query: Call['query']): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) given.set(name, String(value));
  }
  return given.size === 0 ? '' : `?${given}`;
}

/** Reads all of an answer; one over the limit is broken, not cut. */
function textOf(answer: IncomingMessage, limit: number, arm: Armed): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    answer.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= limit) chunks.push(chunk);
      else answer.destroy(new EngineDown('garbled', 'an answer of the engine is too long'));
    });
    const settle = (end: () => void) => {
      arm.off();
      end();
    };
    answer.once('end', () => settle(() => resolve(Buffer.concat(chunks).toString('utf8'))));
    answer.once('error', (error) => settle(() => reject(asDown(error, ''))));
    answer.once('close', () =>
      settle(() => reject(new EngineDown('broken', 'the engine cut its answer off'))),
    );
  });
}

function asDown(error: unknown, path: string): Error {
  if (error instanceof EngineDown) return error;
  const message = error instanceof Error ? error.message : String(error);
  const down = (kind: EngineDown['kind'], why: string) => new EngineDown(kind, why, error);
  if (isErrno(error, 'ENOENT')) return down('absent', `there is no engine's socket at ${path}`);
  if (isErrno(error, 'EACCES') || isErrno(error, 'EPERM')) {
    return down('denied', `this user may not open ${path}`);
  }
  if (isErrno(error, 'ECONNREFUSED')) return down('refused', `nobody listens on ${path}`);
  return down('broken', `the connection to the engine broke: ${message}`);
}

function messageOf(text: string, status: number): string {
  const said = (parse(text) as { message?: unknown } | null)?.message;
  return oneLine(typeof said === 'string' ? said : text || `status ${status}`);
}

function parse(text: string): unknown {
  try {
    return text.trim() === '' ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
