/**
 * The way from a fenced container to the gateway: a listener on the machine's own address in the
 * containers' network, which the fence lets in alone (ADR-0051).
 *
 * Invariants: only paths of the gateway go on, with a few headers; everything else of the control
 * plane cannot be asked for here; only callers of that network are answered; memory is bounded by
 * connections, not by bodies; what is cut never ends like a whole answer; a caller who leaves takes
 * the connection to the gateway along. Its port is kept, because containers outlive this program.
 */
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { BlockList } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import { limits } from '../contract/limits.ts';
import { isGatewayPath } from '../contract/routes.ts';
import type { Door } from '../drivers/docker/fence-rules.ts';
import type { GuardedNetwork } from '../drivers/docker/network.ts';
import { isErrno, readIfThere, writeDurably } from '../lib/files.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { GatewayDoor } from './gateway-door.ts';

export type GatewayRelay = {
  /** Listens in a network, where it does not yet; null where it cannot. */
  openDoor(network: GuardedNetwork): Promise<Door | null>;
  close(): Promise<void>;
};

export type GatewayRelayOptions = {
  gateway: GatewayDoor;
  /** Where the port is kept. */
  port_file: string;
  log: Log;
};

const usual_port = 4610;
const methods = ['GET', 'HEAD', 'POST', 'DELETE'];
const passed_on = ['accept', 'authorization', 'content-type', 'content-encoding', 'user-agent'];
/** Of one connection alone, or of another site than the caller's. */
const kept_back = [
  ...['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'trailer', 'set-cookie'],
  ...['proxy-authenticate', 'proxy-connection', 'alt-svc', 'strict-transport-security'],
];

export function createGatewayRelay(options: GatewayRelayOptions): GatewayRelay {
  const { log } = options;
  const open = new Map<string, { server: Server; door: Door }>();

  async function listenAt(address: string, subnets: string[]): Promise<Door> {
    const kept = Number(readIfThere(options.port_file) ?? 0);
    const server = createRelayServer(options, subnets);
    const port = await bind(server, address, kept || usual_port).catch((error) => {
      // Running containers know the kept one: another would help nobody.
      if (kept !== 0 || !isErrno(error, 'EADDRINUSE')) throw error;
      return bind(server, address, 0);
    });
    if (port !== kept) writeDurably(options.port_file, String(port));
    const door = { address, port };
    open.set(address, { server, door });
    return door;
  }

  return {
    async openDoor({ gateways, subnets }) {
      const [address] = gateways;
      if (address === undefined) return null;
      const here = open.get(address);
      if (here !== undefined) return here.door;
      try {
        return await listenAt(address, subnets);
      } catch (error) {
        const fields = { address, error: describeError(error) };
        log.warn(fields, 'containers cannot call the gateway: its relay cannot listen');
        return null;
      }
    },
    async close() {
      const all = [...open.values()];
      open.clear();
      await Promise.all(all.map(({ server }) => shut(server)));
    },
  };
}

function createRelayServer({ gateway, log }: GatewayRelayOptions, subnets: string[]): Server {
  const callers = new BlockList();
  for (const subnet of subnets) {
    const [address = '', prefix = ''] = subnet.split('/');
    callers.addSubnet(address, Number(prefix));
  }
  const busy = createCounts();
  const connected = createCounts();
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 120_000, maxHeaderSize: limits.relay_header_bytes },
    (request, response) => {
      const caller = request.socket.remoteAddress ?? '';
      const refused = judge(request, busy.of(caller));
      if (refused !== null) return refuse(request, response, refused);
      response.once('close', busy.add(caller));
      void passOn(gateway, request, response).catch((error) => {
        log.debug({ error: describeError(error) }, 'the relay reached no gateway');
        refuse(request, response, refusals.no_gateway);
      });
    },
  );
  server.maxConnections = limits.relay_connections;
  server.on('connection', (socket) => {
    const caller = socket.remoteAddress ?? '';
    const is_one_too_many = connected.of(caller) >= limits.relay_connections_of_one;
    if (!callers.check(caller) || is_one_too_many) return void socket.destroy();
    socket.once('close', connected.add(caller));
  });
  for (const event of ['upgrade', 'connect'] as const) {
    server.on(event, (_: IncomingMessage, socket: Duplex) => socket.destroy());
  }
  return server;
}

/** How many of something each caller has. */
function createCounts() {
  const counts = new Map<string, number>();
  const of = (caller: string) => counts.get(caller) ?? 0;
  return {
    of,
    /** One more; what is returned takes it back. */
    add(caller: string): () => void {
      counts.set(caller, of(caller) + 1);
      return () => {
        if (of(caller) > 1) counts.set(caller, of(caller) - 1);
        else counts.delete(caller);
      };
    },
  };
}

type Refusal = { status: number; code: string; message: string };

const refusals = {
  no_path: { status: 404, code: 'unknown_path', message: 'Only the paths of inference are here.' },
  busy: { status: 429, code: 'too_many_requests', message: 'Too many requests at once.' },
  no_gateway: { status: 502, code: 'gateway_unreachable', message: 'The gateway does not answer.' },
} as const satisfies Record<string, Refusal>;

/** The path as it is, or none: what would be read in two ways by two programs does not go on. */
function judge({ method = '', url = '' }: IncomingMessage, count: number): Refusal | null {
  const path = url.split('?', 1)[0] ?? '';
  const is_plain = /^\/[\w./:-]+$/.test(path) && !/(?:\/|^)\.{1,2}(?:\/|$)|\/\//.test(path);
  if (!methods.includes(method) || !is_plain || !isGatewayPath(path)) return refusals.no_path;
  return count >= limits.relay_requests_of_one ? refusals.busy : null;
}

async function passOn(
  gateway: GatewayDoor,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const stream = await gateway.dial();
  if (response.closed) return void stream.destroy();
  const headers: Record<string, string> = { host: gateway.host(), connection: 'close' };
  for (const name of [...passed_on, 'content-length']) {
    const value = request.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  const { method, url } = request;
  const asked = httpRequest({
    ...{ method, path: url, headers, createConnection: () => stream },
  });
  // Whoever leaves first takes the other side along.
  response.once('close', () => {
    asked.destroy();
    stream.destroy();
  });
  asked.on('error', () => refuse(request, response, refusals.no_gateway));
  asked.on('response', (answer) => {
    const kept = Object.entries(answer.headers).filter(([name]) => !kept_back.includes(name));
    response.writeHead(answer.statusCode ?? 502, Object.fromEntries(kept));
    response.flushHeaders();
    pipeline(answer, response, (error) => {
      if (error) response.destroy();
    });
  });
  pipeline(request, asked, () => {}); // how it ends is told by what it leads to
}

/** In the shape of the API that is spoken here. Nothing where an answer has begun. */
function refuse(request: IncomingMessage, response: ServerResponse, refused: Refusal): void {
  if (response.headersSent) return void response.destroy();
  const { status, code, message } = refused;
  const error = { message, type: 'invalid_request_error', param: null, code };
  request.resume();
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
  response.end(JSON.stringify({ error }));
}

function bind(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port }, () => {
      server.off('error', reject);
      const bound = server.address();
      resolve(typeof bound === 'object' && bound !== null ? bound.port : port);
    });
  });
}

function shut(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
