/**
 * A rig whose notebooks have sites: the listeners, the API and the access proxy over real sockets,
 * in front of a program that the test writes by hand.
 *
 * Invariants: nothing sleeps; what it opened is closed by `close`.
 */
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import {
  type AddressInfo,
  connect,
  createServer,
  type Server as NetServer,
  type Socket,
} from 'node:net';
import type { Duplex } from 'node:stream';
import type { Dial } from '../../src/access/upstreams.ts';
import { type Access, openAccess } from '../../src/controlplane/access.ts';
import { type Api, createApi } from '../../src/controlplane/api.ts';
import type { ApiDeps } from '../../src/controlplane/api-deps.ts';
import { numberChanges } from '../../src/controlplane/changes.ts';
import { openHostKey } from '../../src/controlplane/host-key.ts';
import { type Listening, listen } from '../../src/controlplane/server.ts';
import { makeId } from '../../src/core/ids.ts';
import { runName } from '../../src/core/run.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { Random } from '../../src/lib/random.ts';
import { digest, Secret } from '../../src/lib/secret.ts';
import { type Body, createRig, type Rig } from './rig.ts';

export type SiteRig = {
  rig: Rig;
  api: Api;
  access: Access;
  port: number;
  /** Of the control plane itself. */
  origin: string;
  /** Where runs are dialled: the test puts something else in its place. */
  dial: { now: Dial };
  /** Runs that were dialled, by name. */
  dialled: string[];
  /** Workloads whose sites were used. */
  touched: string[];
  /** A notebook that runs, of the rig's own tenant unless another is named. */
  addNotebook(owner?: { tenant_id: string; user_id: string }): Promise<Notebook>;
  /** Its state, as if its run had ended or another had begun. */
  move(notebook: Notebook, state: string, run_epoch?: number): Promise<void>;
  /** A session of a browser. */
  addSession(user_id?: string): Promise<{ cookie: string; id: string }>;
  /** Asks the API over HTTP. */
  ask(
    method: string,
    path: string,
    headers?: Record<string, string>,
    body?: unknown,
  ): Promise<Told>;
  /** A ticket for the notebook, by a token or a session. */
  ticketFor(notebook: Notebook, headers?: Record<string, string>): Promise<string>;
  /** Spends a ticket at a host, as its page does. */
  redeem(host: string, ticket: string, headers?: Record<string, string>): Promise<Answer>;
  /** The cookie of who has opened the notebook. */
  open(notebook: Notebook, headers?: Record<string, string>): Promise<string>;
  close(): Promise<void>;
};
export type Notebook = { id: string; host: string; origin: string; name: string };
export type Told = { status: number; headers: Headers; text: string; body: Body };
/** An answer as it came over the wire. */
export type Answer = { status: number; head: string; body: string; text: string };

export type SiteRigOptions = {
  random?: Random;
  clock?: Clock;
  backend?: ApiDeps['backend'];
  wake?(workload_id: string): Promise<unknown>;
};

function wakerOf({ wake }: SiteRigOptions): ApiDeps['waker'] | null {
  if (wake === undefined) return null;
  return {
    async wake(workload_id) {
      await wake(workload_id);
      return { outcome: 'woken' };
    },
  };
}

export async function createSiteRig(options: SiteRigOptions = {}): Promise<SiteRig> {
  const rig = await createRig();
  const clock = options.clock ?? rig.clock;
  const random = options.random ?? rig.random;
  const changes = await numberChanges(rig.apiDeps.store);
  const { store } = changes;
  const { revocations } = rig.apiDeps;
  const bound = { port: 0 };
  const cookieName = () => `einsora_session_${bound.port}`;
  const origin = () => `http://localhost:${bound.port}`;
  const backend = options.backend ?? rig.apiDeps.backend;
  const waker = wakerOf(options) ?? rig.apiDeps.waker;
  const api = createApi({ ...rig.apiDeps, store, cookieName, origin, backend, clock, waker });
  const dialled: string[] = [];
  const touched: string[] = [];
  const dial: { now: Dial } = { now: () => Promise.reject(new Error('nothing runs here')) };
  const access = openAccess({
    ...{ store, clock, random, log: rig.log, revocations, changes, cookieName },
    dial(run, machine_id, port_name) {
      dialled.push(`${runName(run)} ${port_name}`);
      return dial.now(run, machine_id, port_name);
    },
    siteToken: (run) => new Secret(`token-of-${runName(run)}`),
    backend,
    host_key: openHostKey(rig.apiDeps.data_dir),
    ...(options.wake === undefined ? {} : { wake: options.wake }),
    touched: (workload_id) => void touched.push(workload_id),
  });
  const gateway = { handle: async () => {}, close: async () => {} };
  const listening: Listening = await listen(0, {
    ...{ api, gateway, clock, random, log: rig.log },
    ...access,
  });
  bound.port = listening.port;
  const made: SiteRig = {
    ...{ rig, api, access, port: bound.port, origin: origin(), dial, dialled, touched },
    addNotebook: (owner) => addNotebook(rig, bound.port, owner),
    // By the numbered store, so that it is heard of as what the program does is.
    move: (...to) => move({ ...rig, store: store as never }, ...to),
    addSession: (user_id = rig.ids.user_id) => addSession(rig, cookieName(), user_id),
    ask: (...asked) => askOver(origin(), ...asked),
    async ticketFor(notebook, headers = { authorization: `Bearer ${rig.token}` }) {
      const made = await this.ask('POST', `/v1/workloads/${notebook.id}/access`, headers);
      if (made.status !== 201) throw new Error(made.text);
      return new URL(String(made.body.url)).hash.replace('#t=', '');
    },
    redeem: (...spent) => redeem(bound.port, ...spent),
    async open(notebook, headers) {
      const answer = await this.redeem(notebook.host, await this.ticketFor(notebook, headers));
      if (answer.status !== 204) throw new Error(answer.text);
      return /^set-cookie: ([^;]+);/im.exec(answer.head)?.[1] ?? '';
    },
    async close() {
      await listening.close();
      await access.close();
      await rig.close();
    },
  };
  return made;
}

async function move(rig: Rig, { id }: Notebook, state: string, run_epoch?: number): Promise<void> {
  const write = (text: string, params: (string | number)[]) =>
    rig.store.transact('write', { text, params });
  if (run_epoch !== undefined) {
    await write('update runs set ended_at = 1, superseded_at = 1 where workload_id = $1', [id]);
    await insertRun(rig, id, run_epoch);
    await write('update workloads set run_epoch = $2 where id = $1', [id, run_epoch]);
  }
  await write('update workloads set state = $2 where id = $1', [id, state]);
}

async function askOver(
  origin: string,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: unknown,
): Promise<Told> {
  const type = body === undefined ? {} : { 'content-type': 'application/json' };
  const answer = await fetch(`${origin}${path}`, {
    method,
    headers: { ...headers, ...type },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  const is_json = answer.headers.get('content-type')?.startsWith('application/json');
  const { status } = answer;
  return { status, headers: answer.headers, text, body: is_json ? JSON.parse(text) : {} };
}

function redeem(
  port: number,
  host: string,
  ticket: string,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const body = JSON.stringify({ ticket });
  const lines = headerLines({
    Origin: `http://${host}`,
    'Sec-Fetch-Site': 'same-origin',
    'Content-Type': 'application/json',
    'Content-Length': String(body.length),
    ...headers,
  });
  return raw(port, ['POST /.einsora/open HTTP/1.1', `Host: ${host}`, ...lines], body);
}

async function addNotebook(
  rig: Rig,
  port: number,
  owner: { tenant_id: string; user_id: string } = rig.ids,
): Promise<Notebook> {
  const id = makeId(rig.clock.now(), rig.random.bytes(10));
  const name = `lab-${id.slice(-6)}`;
  const now = rig.clock.now();
  await rig.store.transact('write', {
    text: `insert into workloads (id, tenant_id, creator_id, name, kind, spec, state, intent,
        park_cause, code, details, revision, run_epoch, event_number, event_at, attempts,
        not_before, created_at, state_since)
      values ($1, $2, $3, $4, 'notebook', '{"kind":"notebook","name":"lab"}', 'running', 'running',
        'none', 'waiting_for_placement', '{}', 1, 1, 0, 0, 0, 0, $5, $5)`,
    params: [id, owner.tenant_id, owner.user_id, name, now],
  });
  await insertRun(rig, id, 1);
  const host = `w-${id}.localhost:${port}`;
  return { id, host, origin: `http://${host}`, name };
}

async function insertRun(rig: Rig, workload_id: string, run_epoch: number): Promise<void> {
  await rig.store.transact('write', {
    text: `insert into runs (workload_id, replica, run_epoch, machine_id, driver, isolation,
        placed_class, wanted, observed, ready_at, created_at)
      values ($1, 0, $2, $3, 'sim', 'weak', 'cpu-1c-2g', 'run', 'present', 1, 1)`,
    params: [workload_id, run_epoch, rig.ids.machine_id],
  });
}

async function addSession(rig: Rig, cookie_name: string, user_id: string) {
  const cookie = rig.apiDeps.proofs.makeCookie().reveal();
  const id = makeId(rig.clock.now(), rig.random.bytes(10));
  const now = rig.clock.now();
  await rig.store.transact('write', {
    text: `insert into sessions (id, user_id, hash, created_at, last_used_at, expires_at, client,
      signed_in_by) values ($1, $2, $3, $4, $4, $5, '', 'link')`,
    params: [id, user_id, digest(cookie), now, now + 7 * 24 * 3600_000],
  });
  return { cookie: `${cookie_name}=${cookie}`, id };
}

export function headerLines(headers: Record<string, string | string[]>): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().map((one) => `${name}: ${one}`),
  );
}

/** Sends exactly these lines and this body, and gives all that comes back until the end. */
export function raw(port: number, lines: string[], body = ''): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('close', () => resolve(parseAnswer(text)));
    socket.on('error', (error) => (text === '' ? reject(error) : undefined));
    socket.write(`${[...lines, 'Connection: close', '', ''].join('\r\n')}${body}`, 'latin1');
  });
}

export function parseAnswer(text: string): Answer {
  const at = text.indexOf('\r\n\r\n');
  const head = at < 0 ? text : text.slice(0, at + 2);
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
  return { status, head, body: at < 0 ? '' : text.slice(at + 4), text };
}

/** A program of a run that is a real HTTP server. */
export async function startProgramServer(answer: RequestListener) {
  const server: Server = createHttpServer({ keepAliveTimeout: 0 }, answer);
  const port = await listenOn(server);
  return { server, dial: dialTo(port), close: () => closeServer(server) };
}

/** A program of a run that says what the test writes, byte by byte. */
export async function startRawProgram(serve: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    serve(socket);
  });
  const port = await listenOn(server);
  return {
    ...{ sockets, dial: dialTo(port) },
    close() {
      for (const socket of sockets) socket.destroy();
      return closeServer(server);
    },
  };
}

function listenOn(server: NetServer): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

function dialTo(port: number): () => Promise<Duplex> {
  return () =>
    new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(socket);
      });
    });
}

function closeServer(server: NetServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    if ('closeAllConnections' in server) (server as Server).closeAllConnections();
  });
}
