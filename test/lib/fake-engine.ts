/**
 * A stand-in for the socket of a Docker Engine: for versions, devices and faults that the machine's
 * own engine does not have. It keeps containers, volumes and networks as far as a driver asks for
 * them, in the shapes of the engine's API.
 *
 * Invariants: every request is recorded as it came; what it does not know is 404 with the engine's
 * kind of message; everything it opened is closed with it.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type FakeRequest = {
  method: string;
  /** Without the version. */
  path: string;
  version: string | null;
  query: Record<string, string>;
  body: unknown;
};

export type FakeContainer = {
  id: string;
  name: string;
  body: Record<string, unknown>;
  state: { Status: string; Pid: number; ExitCode: number; StartedAt: string; OOMKilled: boolean };
};

type Answer = { status?: number; json?: unknown; text?: string } | 'nothing';

export type FakeEngine = {
  socket_path: string;
  requests: FakeRequest[];
  containers: FakeContainer[];
  version: { ApiVersion: string; MinAPIVersion: string; [name: string]: unknown };
  info: Record<string, unknown>;
  /** What `nvidia-smi -L` prints in a container, by its UUIDs; as it was given, where left out. */
  seen_gpus: string[] | null;
  /** Answers before all else; null for what is none of its business, 'nothing' to stay silent. */
  fault: (request: FakeRequest) => Answer | null;
  [Symbol.asyncDispose](): Promise<void>;
};

export async function fakeEngine(api: { newest: string; oldest: string }): Promise<FakeEngine> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-engine-'));
  const socket_path = join(folder, 'docker.sock');
  const server = createServer((request, response) => void serve(engine, request, response));
  server.listen(socket_path);
  await once(server, 'listening');
  const engine: FakeEngine = {
    socket_path,
    requests: [],
    containers: [],
    version: {
      Version: '29.0.0',
      ApiVersion: api.newest,
      MinAPIVersion: api.oldest,
      Os: 'linux',
      // Another kernel than ours: its pids are not seen from here.
      KernelVersion: 'stand-in',
      Components: [{ Name: 'Engine' }],
    },
    info: { OSType: 'linux', MemoryLimit: true, Driver: 'overlay2', CgroupVersion: '2' },
    seen_gpus: null,
    fault: () => null,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      rmSync(folder, { recursive: true });
    },
  };
  return engine;
}

async function serve(
  engine: FakeEngine,
  asked: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(asked.url ?? '/', 'http://docker');
  const [, version = null, path = ''] = /^(?:\/v(\d+\.\d+))?(\/.*)$/.exec(url.pathname) ?? [];
  const request: FakeRequest = {
    method: asked.method ?? '',
    path,
    version,
    query: Object.fromEntries(url.searchParams),
    body: await bodyOf(asked),
  };
  engine.requests.push(request);
  const answer = engine.fault(request) ?? outdated(engine, request) ?? respond(engine, request);
  if (answer === 'nothing') return;
  const { status = 200, json, text } = answer;
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(json === undefined ? text : JSON.stringify(json));
}

function outdated({ version }: FakeEngine, request: FakeRequest): Answer | null {
  const minor = (text: string) => Number(text.split('.')[1]);
  if (request.version === null) return null;
  const { MinAPIVersion, ApiVersion } = version;
  const say = (message: string) => ({ status: 400, json: { message } });
  if (minor(request.version) < minor(MinAPIVersion)) {
    const least = `Minimum supported API version is ${MinAPIVersion}`;
    return say(
      `client version ${request.version} is too old. ${least}, please upgrade your client`,
    );
  }
  if (minor(request.version) <= minor(ApiVersion)) return null;
  const most = `Maximum supported API version is ${ApiVersion}`;
  return say(`client version ${request.version} is too new. ${most}`);
}

function respond(engine: FakeEngine, request: FakeRequest): Answer {
  const { method, path } = request;
  if (path === '/version') return { json: engine.version };
  if (path === '/info') return { json: engine.info };
  if (path.startsWith('/images/')) return { json: { Id: 'sha256:1', RepoDigests: ['x@sha256:2'] } };
  if (path === '/containers/json') return { json: engine.containers.map(listed) };
  if (path === '/containers/create') return create(engine, request);
  if (path.startsWith('/exec/')) return execAnswer(engine, path);
  const [, id = '', action = ''] = /^\/containers\/([^/]+)\/?(\w*)$/.exec(path) ?? [];
  const found = engine.containers.find((one) => one.id === id || one.name === id);
  if (found === undefined) return { status: 404, json: { message: `No such container: ${id}` } };
  if (method === 'DELETE') {
    engine.containers.splice(engine.containers.indexOf(found), 1);
    return { status: 204 };
  }
  return act(found, action);
}

/** The one program that it plays: `nvidia-smi -L` of a container. */
function execAnswer(engine: FakeEngine, path: string): Answer {
  const [, id = '', action = ''] = /^\/exec\/([^/]+)\/(\w+)$/.exec(path) ?? [];
  if (action === 'json') return { json: { Running: false, ExitCode: 0, Pid: 1 } };
  const found = engine.containers.find((one) => one.id === id);
  const { DeviceRequests } = (found?.body.HostConfig ?? {}) as {
    DeviceRequests?: { DeviceIDs: string[] }[];
  };
  const given = DeviceRequests?.[0]?.DeviceIDs.map((name) => name.split('=')[1] ?? '') ?? [];
  const lines = (engine.seen_gpus ?? given).map((uuid, index) =>
    uuid.startsWith('MIG-')
      ? `  MIG 1g.10gb     Device  ${index}: (UUID: ${uuid})\r\n`
      : `GPU ${index}: NVIDIA made up (UUID: ${uuid})\r\n`,
  );
  return { text: lines.join('') };
}

function act(found: FakeContainer, action: string): Answer {
  const { state, body } = found;
  if (action === 'json') {
    const { Labels } = body as { Labels: unknown };
    return { json: { Id: found.id, State: state, Config: { Labels }, NetworkSettings: {} } };
  }
  if (action === 'start') {
    Object.assign(state, { Status: 'running', Pid: 4242, StartedAt: '2026-01-02T03:04:05Z' });
    return { status: 204 };
  }
  if (action === 'kill') {
    Object.assign(state, { Status: 'exited', Pid: 0, ExitCode: 137 });
    return { status: 204 };
  }
  if (action === 'exec') return { status: 201, json: { Id: found.id } };
  if (action === 'wait') return { json: { StatusCode: state.ExitCode } };
  return { status: 404, json: { message: 'page not found' } };
}

function create(engine: FakeEngine, { query, body }: FakeRequest): Answer {
  const name = query.name ?? '';
  if (engine.containers.some((one) => one.name === name)) {
    return { status: 409, json: { message: `Conflict. The container name "/${name}" is in use` } };
  }
  const id = String(engine.containers.length + 1).padStart(64, 'c');
  const state = { Status: 'created', Pid: 0, ExitCode: 0, StartedAt: '0001-01-01T00:00:00Z' };
  engine.containers.push({
    ...{ id, name, body: body as Record<string, unknown> },
    state: { ...state, OOMKilled: false },
  });
  return { status: 201, json: { Id: id, Warnings: [] } };
}

function listed({ id, name, body, state }: FakeContainer) {
  return { Id: id, Names: [`/${name}`], Labels: body.Labels, State: state.Status };
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  try {
    return text === '' ? null : JSON.parse(text);
  } catch {
    return text;
  }
}
