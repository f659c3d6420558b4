/**
 * Stand-ins for vLLM and mlx_lm.server on a Unix socket, for machines without them: they say the
 * known answer in the shapes that the real ones were seen to use (vLLM 0.32, mlx_lm 0.32), with
 * their quirks.
 *
 * Invariants: what the real one would refuse is refused with its status and its shape; what it
 * would not survive it does not survive. That they are like the real ones is what the contract of
 * engines is for, which both pass.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mlxAnswer } from './mlx-stand-in.ts';
import { vllmAnswer } from './vllm-stand-in.ts';

export type Fields = Record<string, unknown>;

/** A question as it came; the fields are null where the body was no JSON object. */
export type Asked = { path: string; headers: IncomingMessage['headers']; fields: Fields | null };

export type Reply =
  | { status: number; body: unknown }
  /** Each is written as it is; a `null` ends the connection there. */
  | { events: (string | null)[] };

export type StandIn = {
  asked: Asked[];
  dial(): Promise<Socket>;
  stop(): Promise<void>;
};

export function startVllmStandIn(): Promise<StandIn> {
  return standIn(vllmAnswer());
}

export function startMlxStandIn(): Promise<StandIn> {
  return standIn(mlxAnswer());
}

export const known_words = 'Einsora runs this tiny model on your own machine.'
  .split(' ')
  .map((word, index) => (index === 0 ? word : ` ${word}`));

/** Words of the known answer up to a limit of tokens, of which its end is one. */
export function said(limit: unknown): { words: string[]; tokens: number; finish_reason: string } {
  const most = typeof limit === 'number' ? limit : 512;
  const is_whole = most > known_words.length;
  return {
    words: known_words.slice(0, most),
    tokens: is_whole ? known_words.length + 1 : most,
    finish_reason: is_whole ? 'stop' : 'length',
  };
}

/** A token for each byte, and the marks around the messages. */
export function promptTokens({ messages, prompt }: Fields): number {
  if (typeof prompt === 'string') return Buffer.byteLength(prompt);
  const list = Array.isArray(messages) ? messages : [];
  return list.reduce((sum: number, { content }) => sum + Buffer.byteLength(String(content)) + 8, 4);
}

async function standIn(answer: (asked: Asked) => Reply): Promise<StandIn> {
  const folder = await mkdtemp(join(tmpdir(), 'stand-in-'));
  const path = join(folder, 'api.sock');
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const question = await read(request);
    asked.push(question);
    write(response, answer(question));
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    asked,
    dial: () =>
      new Promise((resolve, reject) => {
        const connection = connect(path);
        connection.once('connect', () => resolve(connection));
        connection.once('error', reject);
      }),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function read(request: IncomingMessage): Promise<Asked> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const { url: path = '', headers } = request;
  try {
    const fields = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    return { path, headers, fields: typeof fields === 'object' ? fields : null };
  } catch {
    return { path, headers, fields: null };
  }
}

function write(response: ServerResponse, reply: Reply): void {
  if ('status' in reply) {
    const { status, body } = reply;
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(text);
    return;
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  for (const event of reply.events) {
    if (event === null) return void response.destroy();
    response.write(event);
  }
  response.end();
}
