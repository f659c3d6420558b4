/**
 * A model hub and the file servers behind it, over real HTTP or TLS on loopback: repositories with
 * files, and every fault that a hub, a network or somebody in between can have, each as a switch.
 *
 * Invariants: `requests` has each request as it came, so that a test can say which header went
 * where; `close` ends every connection at once.
 */
import { createHash } from 'node:crypto';
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttps } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { testCertificate } from './certificate.ts';

export type HubFaults = {
  /** Nothing is ever answered. */
  silent?: boolean;
  /** The whole hub answers so. */
  status?: { code: number; headers?: Record<string, string>; body?: string };
  /** Of file requests only. */
  file_status?: { code: number; headers?: Record<string, string>; body?: string };
  /** The next so many requests for content are answered 503 or cut. */
  fail_next?: number;
  cut_next?: number;
  /** Content stops so far into the file, and stays open. */
  stall_at?: number;
  ignore_range?: boolean;
  wrong_range?: boolean;
  refuse_range?: boolean;
  html?: boolean;
  gzip?: boolean;
  /** Content differs from what the list says, at the same length. */
  corrupt?: boolean;
  short_by?: number;
  endless?: boolean;
  no_length?: boolean;
  redirect_loop?: boolean;
  /** Where content is sent on to, in place of the file server. */
  redirect_to?: string;
  /** The list of files, as it goes over the wire. */
  tree?: (entries: unknown[]) => unknown;
  page_size?: number;
  link?: string;
  /** Lists and heads differ. */
  head?: Record<string, string>;
};

export type FakeHub = {
  url: string;
  /** The origin of the file server behind it. */
  files_origin: string;
  /** To trust, with TLS. */
  ca: string | null;
  commit: string;
  faults: HubFaults;
  /** A token that opens gated and private repositories. */
  token: string;
  requests: {
    origin: 'hub' | 'files';
    method: string;
    path: string;
    headers: IncomingMessage['headers'];
  }[];
  put(repo: string, path: string, content: Buffer, how?: { lfs?: boolean }): void;
  /** Who may not have it. */
  close_repo(repo: string, how: 'gated' | 'private' | 'disabled'): void;
  /** Requests for content that are open now. */
  open(): number;
  /** Ends every connection. */
  cut(): void;
  close(): Promise<void>;
};

type Repo = { files: Map<string, { content: Buffer; lfs: boolean }>; closed: string | null };

type State = {
  hub: FakeHub;
  repos: Map<string, Repo>;
  serving: Set<ServerResponse>;
};

export async function startFakeHub(options: { tls?: boolean } = {}): Promise<FakeHub> {
  const tls = options.tls === true ? testCertificate() : null;
  const sockets = new Set<Socket>();
  const repos = new Map<string, Repo>();
  const serving = new Set<ServerResponse>();
  const start = async (name: 'hub' | 'files') => {
    const onRequest = (request: IncomingMessage, response: ServerResponse) => {
      const { method = '', url = '', headers } = request;
      hub.requests.push({ origin: name, method, path: url, headers });
      if (hub.faults.silent) return;
      if (name === 'hub') answerHub(state, request, response);
      else sendContent(state, request, response, fileOf(state, url));
    };
    const server = tls ? createHttps(tls, onRequest) : createHttp(onRequest);
    server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    return { server, origin: `${tls ? 'https' : 'http'}://127.0.0.1:${port}` };
  };
  const [first, second] = [await start('hub'), await start('files')];
  const hub: FakeHub = {
    url: first.origin,
    files_origin: second.origin,
    ca: tls?.cert ?? null,
    commit: 'c0ffee'.padEnd(40, '0'),
    faults: {},
    token: 'hf_faketokenfaketoken',
    requests: [],
    put(repo, path, content, how = {}) {
      const at = repos.get(repo) ?? { files: new Map(), closed: null };
      at.files.set(path, { content, lfs: how.lfs ?? true });
      repos.set(repo, at);
    },
    close_repo(repo, how) {
      const at = repos.get(repo);
      if (at !== undefined) at.closed = how;
    },
    open: () => serving.size,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await Promise.all(
        [first, second].map(({ server }) => new Promise((done) => server.close(done))),
      );
    },
  };
  const state: State = { hub, repos, serving };
  return hub;
}

function answerHub(state: State, request: IncomingMessage, response: ServerResponse): void {
  const { hub } = state;
  const { faults } = hub;
  const path = request.url ?? '';
  if (faults.status !== undefined) {
    send(response, faults.status);
    return;
  }
  const revision = /^\/api\/models\/([^/]+\/[^/]+)\/revision\/([^/?]+)$/.exec(path);
  if (revision?.[1]) {
    if (refuses(state, request, response, revision[1], revision[2] ?? '', null)) return;
    json(response, { id: revision[1], sha: hub.commit });
    return;
  }
  const tree = /^\/api\/models\/([^/]+\/[^/]+)\/tree\/([^/?]+)\?/.exec(path);
  if (tree?.[1]) {
    sendTree(state, request, response, tree[1], tree[2] ?? '');
    return;
  }
  const file = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path);
  if (file?.[1] && file[3]) {
    const name = decodeURIComponent(file[3]);
    if (faults.file_status !== undefined) {
      send(response, faults.file_status);
      return;
    }
    if (refuses(state, request, response, file[1], file[2] ?? '', name)) return;
    sendFile(state, request, response, file[1], name);
    return;
  }
  send(response, { code: 404, body: 'Not Found' });
}

/** Whether the request was refused, as the real one words it. */
function refuses(
  state: State,
  request: IncomingMessage,
  response: ServerResponse,
  name: string,
  revision: string,
  file: string | null,
): boolean {
  const { hub, repos } = state;
  const repo = repos.get(name);
  const given = request.headers.authorization;
  const known = given === `Bearer ${hub.token}`;
  const refuse = (code: number, error: string, message = error) => {
    send(response, { code, headers: { 'x-error-code': error, 'x-error-message': message } });
    return true;
  };
  if (given !== undefined && !known)
    return refuse(401, '', 'Invalid credentials in Authorization header');
  if (repo === undefined) return refuse(known ? 404 : 401, 'RepoNotFound', 'Repository not found');
  if (repo.closed === 'disabled') return refuse(403, '', 'Access to this resource is disabled.');
  if (repo.closed === 'private' && !known)
    return refuse(401, 'RepoNotFound', 'Repository not found');
  // As the real one: the list of a gated repository is open, its files are not.
  if (repo.closed === 'gated' && !known && file !== null) {
    return refuse(given === undefined ? 401 : 403, 'GatedRepo', 'Access to model is restricted');
  }
  if (!['main', hub.commit].includes(decodeURIComponent(revision))) {
    return refuse(404, 'RevisionNotFound', 'Invalid rev id');
  }
  if (file !== null && !repo.files.has(file))
    return refuse(404, 'EntryNotFound', 'Entry not found');
  return false;
}

function sendTree(
  state: State,
  request: IncomingMessage,
  response: ServerResponse,
  repo: string,
  revision: string,
): void {
  if (refuses(state, request, response, repo, revision, null)) return;
  const { hub, repos } = state;
  const all = [...(repos.get(repo)?.files ?? [])].map(([path, { content, lfs }]) => ({
    ...{ type: 'file', path, size: content.length, oid: gitSha1(content) },
    ...(lfs ? { lfs: { oid: sha256(content), size: content.length, pointerSize: 135 } } : {}),
  }));
  const url = new URL(request.url ?? '', hub.url);
  const from = Number(url.searchParams.get('cursor') ?? '0');
  const size = hub.faults.page_size ?? 1000;
  const entries: unknown[] = [
    { type: 'directory', path: 'x', oid: '0' },
    ...all.slice(from, from + size),
  ];
  if (from + size < all.length || hub.faults.link !== undefined) {
    url.searchParams.set('cursor', String(from + size));
    response.setHeader('link', hub.faults.link ?? `<${url.href}>; rel="next"`);
  }
  json(response, hub.faults.tree === undefined ? entries : hub.faults.tree(entries));
}

function sendFile(
  state: State,
  request: IncomingMessage,
  response: ServerResponse,
  repo: string,
  name: string,
): void {
  const { hub } = state;
  const file = state.repos.get(repo)?.files.get(name);
  if (file === undefined) {
    send(response, { code: 404 });
    return;
  }
  response.setHeader('x-repo-commit', hub.commit);
  if (!file.lfs) {
    response.setHeader('etag', `"${gitSha1(file.content)}"`);
    sendContent(state, request, response, file.content);
    return;
  }
  response.setHeader('x-linked-etag', `"${sha256(file.content)}"`);
  response.setHeader('x-linked-size', String(file.content.length));
  for (const [key, value] of Object.entries(hub.faults.head ?? {})) response.setHeader(key, value);
  const path = `/${repo}/${name.split('/').map(encodeURIComponent).join('/')}?signed=secretquery`;
  const loop = hub.faults.redirect_loop ? `${hub.url}${request.url}` : null;
  const target = loop ?? hub.faults.redirect_to ?? `${hub.files_origin}${path}`;
  send(response, { code: 302, headers: { location: target } });
}

function fileOf({ repos }: State, url: string): Buffer | null {
  const [, owner, name, ...path] = new URL(url, 'http://files').pathname.split('/');
  const repo = repos.get(`${owner}/${name}`);
  return repo?.files.get(decodeURIComponent(path.join('/')))?.content ?? null;
}

/** The content of a file, with ranges, and with whatever goes wrong. */
function sendContent(
  state: State,
  request: IncomingMessage,
  response: ServerResponse,
  whole: Buffer | null,
): void {
  const { faults } = state.hub;
  if (whole === null) {
    send(response, { code: 404 });
    return;
  }
  if (request.method === 'HEAD') {
    sendHead(state, response, whole);
    return;
  }
  if (faults.fail_next !== undefined && faults.fail_next > 0) {
    faults.fail_next -= 1;
    send(response, { code: 503, headers: { 'retry-after': '0' } });
    return;
  }
  if (faults.html) {
    const body = '<!doctype html><title>Sign in</title>';
    send(response, { code: 200, headers: { 'content-type': 'text/html' }, body });
    return;
  }
  const asked = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  if (asked !== null && faults.refuse_range) {
    send(response, { code: 416 });
    return;
  }
  const content = faults.corrupt
    ? Buffer.from(whole).fill(7, Math.min(64, whole.length >> 1))
    : whole;
  const start = asked === null || faults.ignore_range ? 0 : Number(asked[1]);
  if (start > 0 || (asked !== null && !faults.ignore_range)) {
    const said = faults.wrong_range ? start + 1 : start;
    response.statusCode = 206;
    response.setHeader('content-range', `bytes ${said}-${content.length - 1}/${content.length}`);
  }
  response.setHeader('etag', `"cdn-${content.length}"`);
  sendBody(state, response, content.subarray(start), start);
}

function sendHead({ hub }: State, response: ServerResponse, whole: Buffer): void {
  response.setHeader('etag', `"cdn-${whole.length}"`);
  if (hub.faults.html) response.setHeader('content-type', 'text/html; charset=utf-8');
  if (!hub.faults.no_length) response.setHeader('content-length', whole.length);
  response.end();
}

function sendBody(state: State, response: ServerResponse, body: Buffer, start: number): void {
  const { faults } = state.hub;
  state.serving.add(response);
  response.once('close', () => state.serving.delete(response));
  if (faults.gzip) response.setHeader('content-encoding', 'gzip');
  if (!faults.no_length && !faults.endless) {
    response.setHeader('content-length', body.length - (faults.short_by ?? 0));
  }
  if (faults.endless) {
    writeForEver(response, body);
    return;
  }
  if (faults.cut_next !== undefined && faults.cut_next > 0) {
    faults.cut_next -= 1;
    response.write(body.subarray(0, body.length >> 1), () => response.destroy());
    return;
  }
  if (faults.stall_at !== undefined) {
    response.write(body.subarray(0, Math.max(0, faults.stall_at - start)));
    response.flushHeaders();
    return;
  }
  // In two steps, or else a length is made up for it.
  response.flushHeaders();
  response.end(body.subarray(0, body.length - (faults.short_by ?? 0)));
}

function writeForEver(response: ServerResponse, body: Buffer): void {
  const more = () => {
    while (!response.destroyed && response.write(body));
    if (!response.destroyed) response.once('drain', more);
  };
  more();
}

type Sent = { code: number; headers?: Record<string, string>; body?: string };

function send(response: ServerResponse, { code, headers = {}, body = '' }: Sent): void {
  const kept = Object.entries(headers).filter(([, value]) => value !== '');
  response.writeHead(code, Object.fromEntries(kept));
  response.end(body);
}

function json(response: ServerResponse, value: unknown): void {
  response.setHeader('content-type', 'application/json');
  response.end(typeof value === 'string' ? value : JSON.stringify(value));
}

export function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

function gitSha1(content: Buffer): string {
  return createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');
}
