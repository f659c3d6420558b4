/**
 * An engine that counts aloud, in its own time, and can be killed and come back: for runs in which
 * engines die under load.
 *
 * Invariants: an answer is the numbers from 0 to what was asked for, so that a missing piece shows;
 * it obeys `stream` and `include_usage`; whom a death hit, and how far they were, is kept; dead, it
 * takes no connection and has none.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Clock } from '../../src/lib/clock.ts';

/** reset: as by kill -9; end: as llama-server ends its streams at SIGTERM, without `[DONE]`. */
export type Death = 'reset' | 'end';

export type MortalEngine = {
  dial(): Promise<Socket>;
  isAlive(): boolean;
  kill(how: Death): void;
  revive(): void;
  close(): Promise<void>;
};

/** What a question says: who asks, for how many numbers, and how long each takes. */
export type Count = { id: string; words: number; pace_ms: number };

export const countOf = (words: number) =>
  Array.from({ length: words }, (_, at) => `${at} `).join('');

export async function startMortalEngine(
  clock: Pick<Clock, 'sleep'>,
  /** Called for each question that a death cut off, with how many words had gone out. */
  onHit: (id: string, words: number) => void,
): Promise<MortalEngine> {
  const open = new Map<ServerResponse, { id: string; sent: number }>();
  const sockets = new Set<Socket>();
  let alive = true;
  const server = createServer({ keepAliveTimeout: 0 }, async (request, reply) => {
    const fields = await bodyOf(request);
    if (fields === null) return;
    const said = { id: String(fields.user), sent: 0 };
    open.set(reply, said);
    reply.once('close', () => open.delete(reply));
    await answer(reply, fields, said, clock);
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    dial: () =>
      new Promise((resolve, reject) => {
        if (!alive) return reject(new Error('nobody listens'));
        const socket = connect(port, '127.0.0.1');
        socket.once('connect', () => resolve(socket));
        socket.once('error', reject);
      }),
    isAlive: () => alive,
    kill(how) {
      alive = false;
      for (const { id, sent } of open.values()) onHit(id, sent);
      if (how === 'end') for (const reply of open.keys()) if (reply.headersSent) reply.end();
      open.clear();
      for (const socket of sockets) {
        if (how === 'reset') socket.resetAndDestroy();
        else socket.destroySoon();
      }
    },
    revive() {
      alive = true;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

type Fields = {
  user: string;
  stream?: boolean;
  stream_options?: { include_usage?: boolean };
  metadata: { words: number; pace_ms: number };
};

async function answer(
  reply: ServerResponse,
  fields: Fields,
  said: { sent: number },
  clock: Pick<Clock, 'sleep'>,
): Promise<void> {
  const { words, pace_ms } = fields.metadata;
  const usage = { prompt_tokens: 3, completion_tokens: words, total_tokens: 3 + words };
  await clock.sleep(pace_ms);
  if (fields.stream !== true) {
    await clock.sleep(words * pace_ms);
    if (reply.destroyed) return;
    reply.writeHead(200, { 'Content-Type': 'application/json' });
    reply.end(JSON.stringify(whole(fields.user, words, usage)));
    return;
  }
  if (reply.destroyed) return;
  reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const send = (choices: object[], more = {}) => {
    const id = `count-${fields.user}`;
    const chunk = { id, object: 'chat.completion.chunk', model: 'smol', choices, ...more };
    reply.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  send([{ index: 0, delta: { role: 'assistant', content: null }, finish_reason: null }]);
  for (let at = 0; at < words; at += 1) {
    await clock.sleep(pace_ms);
    if (reply.destroyed || reply.writableEnded) return;
    said.sent += 1;
    send([{ index: 0, delta: { content: `${at} ` }, finish_reason: null }]);
  }
  // As llama-server ends: what it used, whether it was asked for or not.
  const timings = { cache_n: 0, prompt_n: 3, predicted_n: words };
  send([{ index: 0, delta: {}, finish_reason: 'stop' }], { timings });
  if (fields.stream_options?.include_usage === true) send([], { usage });
  reply.end('data: [DONE]\n\n');
}

function whole(user: string, words: number, usage: object) {
  const message = { role: 'assistant', content: countOf(words) };
  const choices = [{ index: 0, message, finish_reason: 'stop' }];
  return { id: `count-${user}`, object: 'chat.completion', model: 'smol', choices, usage };
}

/** Null where the client went before it had asked. */
async function bodyOf(request: IncomingMessage): Promise<Fields | null> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as Fields;
  } catch {
    return null;
  }
}
