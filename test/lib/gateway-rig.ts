/**
 * A gateway behind a real HTTP server, in front of a scriptable engine, for tests.
 *
 * Invariants: one tenant with the endpoint `smol` and a good key, unless the test says otherwise;
 * all that the gateway logs is kept; `close` leaves nothing open.
 */
import { Agent, createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { no_request_limits } from '../../src/core/request-limits.ts';
import { makeToken } from '../../src/core/token.ts';
import { createBalancer } from '../../src/gateway/balance/balancer.ts';
import type { FoundEndpoint, Replica } from '../../src/gateway/endpoint.ts';
import { createGateway, type Gateway, type GatewayOptions } from '../../src/gateway/gateway.ts';
import type { GatewayKey } from '../../src/gateway/key.ts';
import type { Log, LogFields } from '../../src/lib/log.ts';
import { seededRandom } from '../../src/lib/random.ts';
import { digest } from '../../src/lib/secret.ts';
import { type ManualClock, manualClock, startUpstream, type Upstream } from './upstream.ts';

export const good_key = makeToken('ept_', new Uint8Array(32).fill(1));
export const run = { workload_id: 'w'.repeat(26), replica: 0, run_epoch: 1 };
export const replica: Replica = {
  run,
  machine_id: 'm1',
  machine_name: 'desk',
  placed_class: 'cpu-1',
  region: 'home',
  fallback: 'none',
  slots: null,
};
/** The endpoint `smol` with these replicas. */
export function smol(...replicas: Replica[]): FoundEndpoint & { ok: true } {
  const facts = { workload_id: run.workload_id, tenant_id: 't1', name: 'smol' };
  const more = { engine: 'llama-server', is_apart: false, limits: no_request_limits };
  return { ok: true, endpoint: { ...facts, ...more, replicas } };
}
export const storedKey: GatewayKey = {
  id: 'k1',
  tenant_id: 't1',
  user_id: 'u1',
  workload_ids: null,
  expires_at: null,
  revoked_at: null,
  limits: no_request_limits,
  user_limits: no_request_limits,
};

export type Rig = {
  url: string;
  upstream: Upstream;
  gateway: Gateway;
  clock: ManualClock;
  logged: (LogFields & { message: string })[];
  /** Resolves when the next response has gone out or its client is seen to be gone. */
  left(): Promise<void>;
  /** Resolves when the gateway is through with as many requests as were begun. */
  settled(): Promise<void>;
  close(): Promise<void>;
};

export async function startRig(changes: Partial<GatewayOptions> = {}): Promise<Rig> {
  const upstream = await startUpstream();
  const clock = manualClock();
  const logged: Rig['logged'] = [];
  const gateway = createGateway({
    findKey: async (key_digest) => (key_digest === digest(good_key) ? storedKey : null),
    findEndpoint: async (_key, model) =>
      model === 'smol' ? smol(replica) : { ok: false, code: 'not_found', details: {} },
    balancer: createBalancer(seededRandom(1), clock),
    listModels: async () => [{ id: 'smol', created_at: 1_700_000_000_123 }],
    dial: () => upstream.dial(),
    clock,
    log: keepingLog(logged, {}),
    ...changes,
  });
  const work = new Set<Promise<void>>();
  const waiting: (() => void)[] = [];
  let count = 0;
  const server = createServer((request, response) => {
    count += 1;
    response.once('close', () => {
      for (const heard of waiting.splice(0)) heard();
    });
    const one = gateway.handle(request, response, { request_id: `r${count}` });
    work.add(one);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    upstream,
    gateway,
    clock,
    logged,
    left: () => new Promise((resolve) => void waiting.push(resolve)),
    settled: async () => {
      await Promise.all(work);
    },
    async close() {
      await gateway.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await upstream.close();
    },
  };
}

function keepingLog(into: Rig['logged'], bound: LogFields): Log {
  const keep = (fields: LogFields, message: string) => {
    into.push({ ...bound, ...fields, message });
  };
  const child = (fields: LogFields) => keepingLog(into, { ...bound, ...fields });
  return { debug: keep, info: keep, warn: keep, error: keep, child };
}

export type Sent = {
  method?: string;
  path?: string;
  headers?: Record<string, string | string[]>;
  body?: unknown;
};

/** Sends a request; resolves at the headers of the answer. */
export function open(rig: Rig, sent: Sent = {}): Promise<IncomingMessage> & { leave(): void } {
  const { body = { model: 'smol', stream: true, messages: [] }, path } = sent;
  const raw = typeof body === 'string' || body instanceof Uint8Array;
  const request = httpRequest(rig.url, {
    path: path ?? '/v1/chat/completions',
    method: sent.method ?? 'POST',
    agent: new Agent(),
    headers: {
      Authorization: `Bearer ${good_key}`,
      'Content-Type': 'application/json',
      ...sent.headers,
    },
  });
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    request.on('response', resolve);
    request.on('error', reject);
  });
  answer.catch(() => {});
  request.end(raw ? body : JSON.stringify(body));
  return Object.assign(answer, { leave: () => void request.destroy() });
}

export type Got = {
  status: number;
  headers: IncomingMessage['headers'];
  bytes: Buffer;
  text: string;
  /** Did the body end as it should, or did the connection break? */
  whole: boolean;
};

/** Reads an answer to its end, of whichever kind. */
export async function readAll(answer: IncomingMessage): Promise<Got> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of answer) chunks.push(chunk);
  } catch {
    // A broken body is a finding, told by `complete`.
  }
  const bytes = Buffer.concat(chunks);
  const { statusCode = 0, headers, complete } = answer;
  return { status: statusCode, headers, bytes, text: bytes.toString('utf8'), whole: complete };
}

export async function send(rig: Rig, sent: Sent = {}): Promise<Got> {
  return readAll(await open(rig, sent));
}

/** The error of an answer in OpenAI's shape. */
export function errorOf(got: Got): Record<string, unknown> {
  return JSON.parse(got.text).error;
}
