/**
 * A small API in process for tests of the command line: built from the contract, and scripted.
 *
 * Invariants: everything it answers was parsed with the contract's schema, strictly, so a test
 * cannot pass on a shape that the real server would never give; no timers.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Machine } from '../../src/contract/machines.ts';
import { routes } from '../../src/contract/routes.ts';
import {
  keyRequestSchema,
  type Launch,
  launchSchema,
  type Plan,
  type Workload,
  type WorkloadEvent,
} from '../../src/contract/workloads.ts';
import { answerModels, type FakeModels } from './fake-models.ts';
import { plan, workload } from './fake-records.ts';

export const owner_token = 'own_0123456789abcdef0123456789abcdef';
export const endpoint_key = 'ept_0123456789abcdef0123456789abcdef';

export type Call = {
  method: string;
  path: string;
  query: Record<string, string>;
  body: unknown;
  idempotency_key: string | null;
};

export type Failure = {
  status: number;
  code: string;
  message: string;
  fix: string | null;
  details?: Record<string, string>;
};

export type FakeApi = {
  url: string;
  data_dir: string;
  calls: Call[];
  workloads: Map<string, Workload>;
  events: WorkloadEvent[];
  plan: Plan;
  /** Changes that a workload goes through: one for each time it is looked at by id. */
  script: Partial<Workload>[];
  logs: { text: string; run_epoch: number; end: boolean };
  keys: Map<string, { revoked: boolean; expires_in_ms: number | null }>;
  /** Failures to answer the next calls with, by "METHOD /path". */
  failures: Map<string, Failure>;
  /** The next call of each of these paths has its effect, and then loses its connection. */
  reset_paths: string[];
  models: FakeModels;
  machines: unknown;
  /** What any change of a machine is answered with. */
  machine_changed: unknown;
  catalog: unknown;
  /** What the gateway does with a chat. */
  chat: (body: unknown, response: ServerResponse, request: IncomingMessage) => void;
  close(): Promise<void>;
};

export async function openFakeApi(): Promise<FakeApi> {
  const data_dir = mkdtempSync(join(tmpdir(), 'einsora-cli-'));
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => void serve(api, request, response));
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api: FakeApi = {
    url,
    data_dir,
    calls: [],
    workloads: new Map(),
    events: [],
    plan,
    script: [],
    logs: { text: '', run_epoch: 1, end: false },
    keys: new Map(),
    failures: new Map(),
    reset_paths: [],
    models: { files: [], script: [] },
    machines: { items: [] },
    machine_changed: { machine: null, stopped: 0, forgotten: 0 },
    catalog: { classes: [], images: [], models: [] },
    chat: (_, response) => response.writeHead(500).end(),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      rmSync(data_dir, { recursive: true, force: true });
    },
  };
  const found = { url, pid: process.pid, version: '0.1.0' };
  writeFileSync(join(data_dir, 'control-plane.json'), JSON.stringify(found));
  writeFileSync(join(data_dir, 'owner-token'), `${owner_token}\n`, { mode: 0o600 });
  return api;
}

async function serve(api: FakeApi, request: IncomingMessage, response: ServerResponse) {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  const url = new URL(request.url ?? '/', api.url);
  const method = request.method ?? 'GET';
  const call: Call = {
    method,
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    body: text === '' ? null : JSON.parse(text),
    idempotency_key: String(request.headers['idempotency-key'] ?? '') || null,
  };
  api.calls.push(call);
  if (url.pathname === '/v1/chat/completions') {
    const authorised = request.headers.authorization === `Bearer ${endpoint_key}`;
    if (!authorised) return void response.writeHead(401).end('{"error":{"message":"no key"}}');
    return api.chat(call.body, response, request);
  }
  const answer = answerCall(api, call, request.headers.authorization);
  const reset = api.reset_paths.indexOf(call.path);
  if (reset !== -1) {
    api.reset_paths.splice(reset, 1);
    return void request.socket.destroy();
  }
  response.writeHead(answer.status, {
    'content-type': 'application/json',
    'x-request-id': `req-${api.calls.length}`,
  });
  response.end(answer.body === null ? undefined : JSON.stringify(answer.body));
}

type Answer = { status: number; body: unknown };

const changesOfMachines = new Set('sharing give drain undrain name limits fence DELETE'.split(' '));

function answerCall(api: FakeApi, call: Call, authorization: string | undefined): Answer {
  const failure = api.failures.get(`${call.method} ${call.path}`);
  if (failure !== undefined) return refuse(api, failure);
  if (authorization !== `Bearer ${owner_token}`) {
    return refuse(api, { status: 401, code: 'sign_in_required', message: 'No.', fix: null });
  }
  const parts = call.path.split('/').slice(2);
  if (parts[0] === 'workloads' && parts[1] !== undefined) {
    return answerWorkload(api, call, decodeURIComponent(parts[1]), parts.slice(2));
  }
  if (parts[0] === 'model-files') {
    const missing = {
      status: 404,
      code: 'not_found',
      message: 'There is no model file.',
      fix: null,
    };
    return answerModels(api.models, call, parts[1]) ?? refuse(api, missing);
  }
  if (parts[0] === 'machines' && changesOfMachines.has(parts[2] ?? call.method)) {
    return { status: 200, body: schemaOf('shareMachine', 200).parse(api.machine_changed) };
  }
  if (parts[0] === 'machines' && call.method === 'POST') {
    const { items } = schemaOf('listMachines', 200).parse(api.machines) as { items: Machine[] };
    return { status: 200, body: items.find(({ id }) => id === parts[1]) };
  }
  switch (`${call.method} ${call.path}`) {
    case 'POST /v1/plan':
      launchSchema.parse(call.body);
      return { status: 200, body: schemaOf('plan', 200).parse(api.plan) };
    case 'POST /v1/workloads': {
      const asked = launchSchema.parse(call.body);
      const recorded = launched(api, asked, call.idempotency_key);
      return { status: 201, body: schemaOf('launch', 201).parse(recorded) };
    }
    case 'GET /v1/workloads': {
      const items = [...api.workloads.values()].filter(
        ({ state }) => call.query.deleted === 'true' || state !== 'deleted',
      );
      return { status: 200, body: listPage(items, call.query) };
    }
    case 'GET /v1/machines':
      return { status: 200, body: schemaOf('listMachines', 200).parse(api.machines) };
    case 'GET /v1/catalog':
      return { status: 200, body: schemaOf('showCatalog', 200).parse(api.catalog) };
    case 'POST /v1/sign-in-links':
      return { status: 201, body: { url: `${api.url}/sign-in#t=once` } };
    default:
      return refuse(api, { status: 404, code: 'not_found', message: 'No route.', fix: null });
  }
}

function listPage(items: Workload[], query: Record<string, string>): unknown {
  // Pages of two, whatever was asked for, so that tests see that all are read.
  const from = Number(query.cursor ?? '0');
  const next_cursor = from + 2 < items.length ? String(from + 2) : null;
  return schemaOf('listWorkloads', 200).parse({ items: items.slice(from, from + 2), next_cursor });
}

function answerWorkload(api: FakeApi, call: Call, name: string, rest: string[]): Answer {
  const found = [...api.workloads.values()].find((one) => one.id === name || one.name === name);
  if (found === undefined) {
    const message = `There is no workload ${name}.`;
    return refuse(api, { status: 404, code: 'not_found', message, fix: 'einsora ls' });
  }
  switch (`${call.method} ${rest.join('/')}`) {
    case 'GET ': {
      Object.assign(found, api.script.shift());
      return { status: 200, body: schemaOf('showWorkload', 200).parse(found) };
    }
    case 'POST stop':
      return change(found, { state: 'stopping', intent: 'stopped', park_cause: 'user' });
    case 'POST start':
      return change(found, { state: 'pending', intent: 'running', park_cause: 'none' });
    case 'DELETE ':
      return change(found, { state: 'deleting', intent: 'deleted' });
    case 'GET events': {
      const from = Number(call.query.cursor ?? '0');
      const items = api.events.slice(from, from + 2);
      const next_cursor = from + 2 < api.events.length ? String(from + 2) : null;
      return { status: 200, body: schemaOf('listEvents', 200).parse({ items, next_cursor }) };
    }
    case 'GET logs':
      return { status: 200, body: schemaOf('readLogs', 200).parse(logChunk(api, call.query)) };
    case 'POST keys':
      return { status: 201, body: newKey(api, call, found) };
    default: {
      const key = api.keys.get(rest[1] ?? '');
      if (call.method !== 'DELETE' || key === undefined) {
        return refuse(api, { status: 404, code: 'not_found', message: 'No key.', fix: null });
      }
      key.revoked = true;
      return { status: 204, body: null };
    }
  }
}

function change(found: Workload, to: Partial<Workload>): Answer {
  Object.assign(found, to);
  return { status: 202, body: schemaOf('stopWorkload', 202).parse(found) };
}

/** A repeat with the same key gives the same workload. */
function launched(api: FakeApi, asked: Launch, key: string | null): Workload {
  const known = [...api.workloads.values()].find((one) => one.id === `w-${key}`);
  if (known !== undefined) return known;
  const name = asked.name ?? asked.model?.split('/').at(-1) ?? asked.kind;
  const recorded = workload({
    id: `w-${key}`,
    kind: asked.kind,
    name,
    model: asked.model ?? null,
    state: 'pending',
    url: asked.kind === 'endpoint' ? `${api.url}/v1` : null,
    placement: null,
  });
  api.workloads.set(recorded.id, recorded);
  return recorded;
}

function newKey(api: FakeApi, call: Call, found: Workload): unknown {
  const { expires_in_ms } = keyRequestSchema.parse(call.body);
  const id = `key${api.keys.size + 1}`;
  api.keys.set(id, { revoked: false, expires_in_ms: expires_in_ms ?? null });
  return schemaOf('createKey', 201).parse({
    id,
    workload_id: found.id,
    limits: { rpm: null, tpm: null, concurrency: null },
    use: { requests: 0, tokens: 0, concurrency: 0 },
    last_four: endpoint_key.slice(-4),
    created_at: 0,
    expires_at: null,
    revoked_at: null,
    key: endpoint_key,
  });
}

/** At most 16 bytes of the log at once, so that tests see that reading goes on. */
function logChunk(api: FakeApi, query: Record<string, string>): unknown {
  const bytes = Buffer.from(api.logs.text);
  const asked = Number(query.offset ?? '0');
  const from = Math.min(bytes.length, asked < 0 ? Math.max(0, bytes.length + asked) : asked);
  const to = Math.min(bytes.length, from + 16);
  const { run_epoch, end } = api.logs;
  const text = bytes.subarray(from, to).toString('utf8');
  return { text, next_offset: to, run_epoch, end: end && to === bytes.length };
}

function refuse(api: FakeApi, failure: Failure): Answer {
  const { status, code, message, fix, details = {} } = failure;
  const request_id = `req-${api.calls.length}`;
  const body = { error: { code, message, fix, details, request_id } };
  return {
    status,
    body: routes.plan.responses.default.content['application/json'].schema.parse(body),
  };
}

type Parser = { parse(value: unknown): unknown };

/** The contract's schema of one answer. */
function schemaOf(name: keyof typeof routes, status: number): Parser {
  const responses = routes[name].responses as Record<
    number,
    { content?: { 'application/json': { schema: Parser } } }
  >;
  const schema = responses[status]?.content?.['application/json'].schema;
  if (schema === undefined) throw new Error(`the contract has no ${status} for ${name}`);
  return schema;
}
