/**
 * A client that costs little: one request over kept connections, its answers counted by length.
 *
 * Invariants: an answer of another length, or a connection that ends in one, is an error and not a
 * figure.
 */
import type { Asked } from './access-child.ts';
import { dialLane, keepAsking, type Lane, openSocket } from './lanes.ts';

/** Answers a second, by so many connections, each of which asks again once it is answered. */
export async function requestsPerSecond(asked: Asked, connections: number, ms: number) {
  const lanes = await Promise.all(Array.from({ length: connections }, () => openLane(asked)));
  return (await keepAsking(lanes, ms)).per_s;
}

/** How long each of so many requests takes over one connection: the median, in milliseconds. */
export async function latency(asked: Asked, requests: number): Promise<number> {
  const lane = await openLane(asked);
  const times: number[] = [];
  for (let at = 0; at < requests; at += 1) {
    const began = performance.now();
    await lane.ask();
    times.push(performance.now() - began);
  }
  lane.close();
  times.sort((a, b) => a - b);
  return times[Math.floor(times.length / 2)] ?? Number.NaN;
}

/** Megabytes a second of one long answer. */
export async function megabytesPerSecond(asked: Asked, bytes: number): Promise<number> {
  const socket = await openSocket(asked.port);
  const began = performance.now();
  socket.write(requestOf(asked, `/big/${bytes}`));
  let got = 0;
  await new Promise<void>((resolve, reject) => {
    socket.on('data', (chunk: Buffer) => {
      got += chunk.length;
      if (got >= bytes) resolve();
    });
    socket.once('close', () => reject(new Error(`ended after ${got} bytes`)));
  });
  const took_s = (performance.now() - began) / 1000;
  socket.destroy();
  return bytes / 1e6 / took_s;
}

/** The length of an answer is that of the first one: only then is one told from the next. */
async function openLane(asked: Asked): Promise<Lane> {
  const hearing = () => {
    let length = 0;
    let got = 0;
    return (chunk: Buffer) => {
      if (length === 0) length = lengthOf(chunk);
      got += chunk.length;
      if (got > length) throw new Error('answers of different lengths');
      if (got < length) return false;
      got = 0;
      return true;
    };
  };
  const lane = await dialLane(asked.port, requestOf(asked, '/small'), hearing);
  await lane.ask();
  return lane;
}

function lengthOf(first: Buffer): number {
  const text = first.toString('latin1');
  const head = text.indexOf('\r\n\r\n');
  if (!text.startsWith('HTTP/1.1 200')) throw new Error(text.slice(0, 200));
  const body = Number(/content-length: (\d+)/i.exec(text)?.[1]);
  // Without a length it comes in chunks: one, and the last.
  const chunked = /\r\n\r\n([0-9a-f]+)\r\n/i.exec(text)?.[1];
  if (Number.isFinite(body)) return head + 4 + body;
  if (chunked === undefined) throw new Error('an answer without a length');
  return head + 4 + chunked.length + 2 + Number.parseInt(chunked, 16) + 2 + 5;
}

function requestOf({ host, headers }: Asked, path: string): string {
  const lines = [`GET ${path} HTTP/1.1`, `Host: ${host}`, 'Accept: */*', ...headers];
  return `${lines.join('\r\n')}\r\n\r\n`;
}
