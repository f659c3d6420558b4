/**
 * The engine behind every gateway of the gateway bench: a raw server that costs as little as it
 * can, and answers in the shapes of a chat completion.
 *
 * Invariants: as a real engine it streams only where it is asked to, an event for each token, each
 * written by itself; how many tokens, the question says; usage only where it is asked for; what is
 * held goes on when `/release` is asked for.
 */
import { createServer, type Socket } from 'node:net';

/** Tokens of the short answer and of the long one: what `max_tokens` asks for. */
export const short_tokens = 9;
/** With the role before and the end after it, 52 events and `[DONE]`. */
export const long_tokens = 50;
/** As `user`: the answer stops after its first token until it is released. */
export const held_user = 'held';

const model = 'smol';
const id = 'chatcmpl-0123456789abcdef';
const created = 1_790_000_000;
const usageOf = (completion_tokens: number) => ({
  prompt_tokens: 24,
  completion_tokens,
  total_tokens: 24 + completion_tokens,
});

const plain = whole(short_tokens);
const head = Buffer.from(
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n',
);
const last = Buffer.from('0\r\n\r\n');
const done = framed('data: [DONE]\n\n');
const role = framed(event({ role: 'assistant', content: null }));
const token = framed(event({ content: ' word' }));
const finish = framed(event({}, 'stop'));
const ok = Buffer.from(
  'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok',
);

const held = new Set<() => void>();

export function createMock() {
  return createServer((socket) => {
    socket.setNoDelay(true);
    socket.on('error', () => {});
    let before = '';
    socket.on('data', (data) => {
      const text = before + data.toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
      const is_whole = end >= 0 && text.length >= end + 4 + length;
      before = is_whole ? '' : text;
      if (is_whole) answer(socket, text.slice(0, end), text.slice(end + 4));
    });
  });
}

function answer(socket: Socket, asked: string, body: string): unknown {
  if (asked.startsWith('GET /release')) {
    for (const go of held) go();
    held.clear();
  }
  if (asked.startsWith('GET')) return socket.write(ok);
  if (!/"stream": ?true/.test(body)) return socket.write(plain);
  const tokens = Number(/"max_tokens": ?(\d+)/.exec(body)?.[1] ?? short_tokens);
  const with_usage = body.includes('include_usage');
  socket.write(head);
  socket.write(role);
  socket.write(token);
  if (!body.includes(`"${held_user}"`)) return finishStream(socket, tokens, with_usage);
  const go = () => finishStream(socket, tokens, with_usage);
  held.add(go);
  return socket.once('close', () => held.delete(go));
}

function finishStream(socket: Socket, tokens: number, with_usage: boolean): void {
  for (let at = 1; at < tokens; at += 1) socket.write(token);
  socket.write(finish);
  if (with_usage) socket.write(framed(chunk({ choices: [], usage: usageOf(tokens) })));
  socket.write(done);
  socket.write(last);
}

function event(delta: Record<string, unknown>, finish_reason: string | null = null): string {
  return chunk({ choices: [{ index: 0, delta, finish_reason }] });
}

function chunk(rest: Record<string, unknown>): string {
  return `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', created, model, ...rest })}\n\n`;
}

function framed(text: string): Buffer {
  return Buffer.from(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
}

function whole(tokens: number): Buffer {
  const message = { role: 'assistant', content: ' word'.repeat(tokens) };
  const body = JSON.stringify({
    ...{ id, object: 'chat.completion', created, model },
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: usageOf(tokens),
  });
  const lines = ['HTTP/1.1 200 OK', 'Content-Type: application/json'];
  return Buffer.from(`${lines.join('\r\n')}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
}
