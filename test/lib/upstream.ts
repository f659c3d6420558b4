/**
 * A scriptable engine for tests: a real HTTP server on a Unix socket whose every answer the test
 * writes by hand, down to the broken ones. With a clock that only the test moves.
 *
 * Invariants: what it saw is kept in order; it never answers by itself, and ends with `close`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../src/lib/clock.ts';

/** A question as it arrived. */
export type Seen = {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** The number of its connection, from 1. */
  connection: number;
  /** Resolves when that connection is gone. */
  gone: Promise<void>;
};

export type Script = (reply: ServerResponse, seen: Seen) => void | Promise<void>;

export type Upstream = {
  seen: Seen[];
  connectionCount(): number;
  /** What to answer from now on. */
  answer(script: Script): void;
  /** Resolves with the next question, or with the first one not yet taken by `next`. */
  next(): Promise<Seen>;
  dial(): Promise<Socket>;
  /** Over TCP, which alone can be reset. */
  dialTcp(): Promise<Socket>;
  close(): Promise<void>;
};

export async function startUpstream(): Promise<Upstream> {
  const folder = await mkdtemp(join(tmpdir(), 'upstream-'));
  const path = join(folder, 'engine.sock');
  const connections = new Map<Socket, Connection>();
  const seen: Seen[] = [];
  const waiting: ((seen: Seen) => void)[] = [];
  let taken = 0;
  let script: Script = (reply) => void reply.destroy();
  const server = createServer({ keepAliveTimeout: 0 }, async (request, reply) => {
    const question = await read(request, connections.get(request.socket));
    seen.push(question);
    if (waiting.length > 0) taken += 1;
    waiting.shift()?.(question);
    await script(reply, question);
  });
  server.on('connection', (connection) => {
    const gone = new Promise<void>((resolve) => connection.once('close', () => resolve()));
    connections.set(connection, { number: connections.size + 1, gone });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const tcp = createTcpServer((connection) => server.emit('connection', connection));
  await new Promise<void>((resolve) => tcp.listen(0, '127.0.0.1', resolve));
  return {
    seen,
    connectionCount: () => connections.size,
    answer: (next) => {
      script = next;
    },
    next: () => {
      const ready = seen[taken];
      if (ready === undefined) return new Promise((resolve) => waiting.push(resolve));
      taken += 1;
      return Promise.resolve(ready);
    },
    dial: () => connected(connect(path)),
    dialTcp: () => connected(connect((tcp.address() as AddressInfo).port, '127.0.0.1')),
    async close() {
      for (const connection of connections.keys()) connection.destroy();
      await new Promise((resolve) => server.close(resolve));
      await new Promise((resolve) => tcp.close(resolve));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

type Connection = { number: number; gone: Promise<void> };

function connected(connection: Socket): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connection.once('connect', () => resolve(connection));
    connection.once('error', reject);
  });
}

async function read(request: IncomingMessage, from?: Connection): Promise<Seen> {
  const { number: connection, gone } = from ?? { number: 0, gone: Promise.resolve() };
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString('utf8');
  return { path: request.url ?? '', headers: request.headers, body, connection, gone };
}

/** Answers with an event stream made of these pieces, each sent by itself, and a clean end. */
export function events(...pieces: (string | Uint8Array)[]): Script {
  return async (reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const piece of pieces) {
      await new Promise((resolve) => reply.write(piece, resolve));
      await new Promise((resolve) => setImmediate(resolve));
    }
    reply.end();
  };
}

export function json(status: number, body: unknown): Script {
  return (reply) => {
    const text = Buffer.from(JSON.stringify(body));
    reply.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': text.length });
    reply.end(text);
  };
}

/** One event of a chat stream with this text. */
export function chatEvent(content: string): string {
  const choices = [{ index: 0, delta: { content }, finish_reason: null }];
  return `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices })}\n\n`;
}

/** Says why the answer ended, as an engine must, and that nothing comes after it. */
export const finishEvent =
  'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
export const doneEvent = `${finishEvent}data: [DONE]\n\n`;

export type ManualClock = Clock & { advance(ms: number): void };

/** A clock that stands still until the test moves it. */
export function manualClock(now_ms = 1_700_000_000_000): ManualClock {
  const timers = new Set<{ at: number; fn: () => void }>();
  let elapsed = 0;
  const after = (ms: number, fn: () => void) => {
    const timer = { at: elapsed + ms, fn };
    timers.add(timer);
    return () => void timers.delete(timer);
  };
  return {
    now: () => now_ms + elapsed,
    monotonic: () => elapsed,
    after,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        const cancel = after(ms, resolve);
        signal?.addEventListener('abort', () => {
          cancel();
          resolve();
        });
      }),
    advance(ms) {
      const target = elapsed + ms;
      for (;;) {
        const [due] = [...timers].filter((timer) => timer.at <= target).sort(byTime);
        if (due === undefined) break;
        timers.delete(due);
        elapsed = due.at;
        due.fn();
      }
      elapsed = target;
    },
  };
}

function byTime(a: { at: number }, b: { at: number }): number {
  return a.at - b.at;
}
