/**
 * A client of the gateway bench that costs little: one question over kept connections.
 *
 * Invariants: an answer of another status, a stream without its `[DONE]` and a connection that ends
 * are errors and not figures.
 */
import { held_user, long_tokens, short_tokens } from './gateway-mock.ts';
import { dialLane, keepAsking, type Lane } from './lanes.ts';

export type Asked = { port: number; headers: string[] };
export type Kind = 'plain' | 'stream' | 'held';

/** Answers a second, by so many connections, each of which asks again once it is answered. */
export async function answersPerSecond(asked: Asked, kind: Kind, connections: number, ms: number) {
  const lanes = await Promise.all(Array.from({ length: connections }, () => openLane(asked, kind)));
  return keepAsking(lanes, ms);
}

/** How long each question takes over one connection, for so long: in milliseconds, sorted. */
export async function latencies(asked: Asked, ms: number): Promise<number[]> {
  const lane = await openLane(asked, 'plain');
  const times: number[] = [];
  for (let began = performance.now(), end = began + ms; began < end; ) {
    await lane.ask();
    const now = performance.now();
    times.push(now - began);
    began = now;
  }
  lane.close();
  return times.sort((a, b) => a - b);
}

export type GatewayLane = Lane & {
  /** Resolves when the first token of the answer is there. */
  first(): Promise<void>;
};

export async function openLane(asked: Asked, kind: Kind): Promise<GatewayLane> {
  let heard: () => void = () => {};
  const first = new Promise<void>((resolve) => {
    heard = resolve;
  });
  const hearing = () => {
    let answer = createAnswer();
    return (chunk: Buffer) => {
      const end = answer.see(chunk);
      if (end === 'first') heard();
      if (end === null || end === 'first') return false;
      const told = answer;
      answer = createAnswer();
      if (end === 'whole' && (kind === 'plain' || told.isDone())) return true;
      throw new Error(`not a whole answer: ${end}`);
    };
  };
  const lane = await dialLane(asked.port, questionOf(asked, kind), hearing);
  if (kind !== 'held') await lane.ask();
  return { ...lane, first: () => first };
}

const tail_bytes = 64;
const last_chunk = Buffer.from('\r\n0\r\n\r\n');

/** One answer as it comes: where its head ends, how its body is framed, whether it is whole. */
function createAnswer() {
  let text = '';
  let left = Number.NaN;
  let tail: Buffer = Buffer.alloc(0);
  let is_done = false;
  let is_first = true;

  function head(chunk: Buffer): Buffer | string {
    text += chunk.toString('latin1');
    const end = text.indexOf('\r\n\r\n');
    if (end < 0) return Buffer.alloc(0);
    if (!text.startsWith('HTTP/1.1 200')) return text.slice(0, 300);
    left = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? Number.POSITIVE_INFINITY);
    return Buffer.from(text.slice(end + 2), 'latin1');
  }

  function see(chunk: Buffer): string | null {
    let body = chunk;
    if (Number.isNaN(left)) {
      const rest = head(chunk);
      if (typeof rest === 'string') return rest;
      if (rest.length === 0) return null;
      // With the end of the head, so that an empty body ends like any other.
      body = rest;
      left += 2;
    }
    if (left !== Number.POSITIVE_INFINITY) {
      left -= body.length;
      return left === 0 ? 'whole' : null;
    }
    tail = body.length >= tail_bytes ? body : Buffer.concat([tail, body]);
    tail = tail.subarray(-tail_bytes);
    is_done ||= tail.includes('[DONE]');
    if (tail.subarray(-last_chunk.length).equals(last_chunk)) return 'whole';
    if (!is_first || body.length <= 4) return null;
    is_first = false;
    return 'first';
  }
  return { see, isDone: () => is_done };
}

function questionOf({ port, headers }: Asked, kind: Kind): string {
  const body = JSON.stringify({
    model: 'smol',
    messages: [
      { role: 'system', content: 'You are a helpful assistant.' },
      { role: 'user', content: 'Say hello in one short sentence.' },
    ],
    max_tokens: kind === 'stream' ? long_tokens : short_tokens,
    ...(kind === 'plain' ? {} : { stream: true }),
    ...(kind === 'held' ? { user: held_user } : {}),
  });
  const lines = [
    'POST /v1/chat/completions HTTP/1.1',
    `Host: 127.0.0.1:${port}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    ...headers,
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}
