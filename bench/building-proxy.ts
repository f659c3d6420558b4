/**
 * The least proxy that asks an engine for a stream and builds the whole answer from it, as the
 * gateway does: what the work itself costs, without a key, a limit, a record, a deadline, another
 * try. On raw sockets; texts pass byte by byte.
 */
import { connect, createServer, type Server, type Socket } from 'node:net';

type Upstream = { socket: Socket; hears(text: string): void };
type Question = { stream?: boolean };
type Chunk = {
  choices: { delta: { content?: string | null }; finish_reason: string | null }[];
  usage?: unknown;
};

export function createBuildingProxy(upstream_port: number): Server {
  const idle: Upstream[] = [];
  return createServer((client) => {
    client.setNoDelay(true);
    client.on('error', () => client.destroy());
    let begun = '';
    client.on('data', (bytes: Buffer) => {
      begun += bytes.toString('latin1');
      const body = bodyIn(begun);
      if (body === null) return;
      begun = '';
      const question = JSON.parse(body) as Question;
      const upstream = idle.pop() ?? dial(upstream_port);
      const over = () => void idle.push(upstream);
      upstream.hears = question.stream === true ? pass(client, over) : build(client, over);
      upstream.socket.write(asked(question), 'latin1');
    });
  });
}

const last_chunk = '0\r\n\r\n';

function dial(port: number): Upstream {
  const socket = connect(port, '127.0.0.1');
  const upstream: Upstream = { socket, hears() {} };
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (bytes: Buffer) => upstream.hears(bytes.toString('latin1')));
  return upstream;
}

/** Null: it is not all there. */
function bodyIn(text: string): string | null {
  const end = text.indexOf('\r\n\r\n');
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
  return end >= 0 && text.length >= end + 4 + length ? text.slice(end + 4) : null;
}

function asked(question: Question): string {
  const options = { stream: true, stream_options: { include_usage: true } };
  const body = JSON.stringify(question.stream === true ? question : { ...question, ...options });
  const lines = ['POST /v1/chat/completions HTTP/1.1', 'Host: 127.0.0.1'];
  const rest = `Content-Type: application/json\r\nContent-Length: ${body.length}`;
  return `${lines.join('\r\n')}\r\n${rest}\r\n\r\n${body}`;
}

function pass(client: Socket, over: () => void): Upstream['hears'] {
  return (text) => {
    if (text.endsWith(last_chunk)) over();
    client.write(text, 'latin1');
  };
}

function build(client: Socket, over: () => void): Upstream['hears'] {
  let heard = '';
  return (text) => {
    heard += text;
    if (!heard.endsWith(last_chunk)) return;
    over();
    const body = JSON.stringify(answerOf(heard));
    const lines = `Content-Type: application/json\r\nContent-Length: ${body.length}`;
    client.write(`HTTP/1.1 200 OK\r\n${lines}\r\n\r\n${body}`, 'latin1');
  };
}

function answerOf(stream: string): Record<string, unknown> {
  let content = '';
  let usage: unknown = null;
  let finish_reason: string | null = null;
  for (let at = stream.indexOf('data: {'); at >= 0; at = stream.indexOf('data: {', at + 6)) {
    const chunk = JSON.parse(stream.slice(at + 6, stream.indexOf('\n\n', at))) as Chunk;
    usage = chunk.usage ?? usage;
    const [choice] = chunk.choices;
    content += choice?.delta.content ?? '';
    finish_reason = choice?.finish_reason ?? finish_reason;
  }
  const message = { role: 'assistant', content };
  const choices = [{ index: 0, message, finish_reason }];
  return { id: 'chatcmpl', object: 'chat.completion', created: 1, model: 'smol', choices, usage };
}
