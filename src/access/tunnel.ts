/**
 * A WebSocket between a browser and the program of a run: the handshake is read, the rest is bytes
 * as they come.
 *
 * Invariants: the browser gets a 101 only when the program has answered 101; whatever else the
 * program answers comes through as the last thing on its connection; once piped, both ends are torn
 * down together.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import { headersForBrowser } from './headers.ts';

export type Tunnel = {
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
  dial(): Promise<Duplex>;
  headers: string[];
  origin: string;
  clock: Pick<Clock, 'after' | 'monotonic'>;
  /** The browser sent something. */
  touched(): void;
  /** Called once where nothing was answered yet; whoever calls answers the browser. */
  failed(error: unknown): void;
};

/** One end said that it has no more to say: the other may finish for so long. */
const farewell_ms = 5_000;
const touch_every_ms = 10_000;

/** Returns what breaks it off. */
export function tunnel(ask: Tunnel): () => void {
  const { socket } = ask;
  let stream: Duplex | null = null;
  let is_over = false;
  const stop = () => {
    is_over = true;
    stream?.destroy();
    socket.destroy();
  };
  socket.once('close', stop);
  const fail = (error: unknown) => {
    if (is_over) return;
    is_over = true;
    stream?.destroy();
    ask.failed(error);
  };
  ask.dial().then((dialled) => {
    stream = dialled;
    dialled.on('error', () => {});
    if (is_over) return void dialled.destroy();
    shakeHands(ask, dialled, fail, () => {
      is_over = true;
    });
  }, fail);
  return stop;
}

function shakeHands(
  ask: Tunnel,
  stream: Duplex,
  fail: (error: unknown) => void,
  answered: () => void,
): void {
  const { request, socket, head, origin, clock } = ask;
  try {
    const upstream = httpRequest({
      ...{ method: 'GET', path: request.url, headers: ask.headers },
      createConnection: () => stream,
      maxHeaderSize: limits.site_answer_header_bytes,
    });
    upstream.on('error', fail);
    upstream.on('close', () => fail(new Error('it closed the connection without an answer')));
    upstream.on('upgrade', (answer, _stream, first) => {
      if (answer.statusCode !== 101) return fail(new Error('it answered with another protocol'));
      answered();
      const hop = ['connection', 'Upgrade', 'upgrade', 'websocket'];
      socket.write(headOf(answer, [...headersForBrowser(answer.rawHeaders, origin), ...hop]));
      if (first.length > 0) socket.write(first);
      if (head.length > 0) stream.write(head);
      pipe(socket, stream, clock);
      watchUse(ask);
    });
    upstream.on('response', (answer) => {
      answered();
      const last = ['connection', 'close'];
      socket.write(headOf(answer, [...headersForBrowser(answer.rawHeaders, origin), ...last]));
      answer.on('error', () => {});
      answer.on('close', () => {
        if (!answer.complete) reset(socket);
      });
      answer.pipe(socket);
      socket.once('finish', () => socket.destroy());
    });
    upstream.end();
  } catch (error) {
    fail(error);
  }
}

/** The end of this connection is the end of the body: cut off, only a reset says so. */
function reset(socket: Duplex): void {
  if (socket instanceof Socket) socket.resetAndDestroy();
  else socket.destroy();
}

function headOf(answer: IncomingMessage, headers: readonly string[]): string {
  const lines = [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}`];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    lines.push(`${headers[at]}: ${headers[at + 1]}`);
  }
  return `${lines.join('\r\n')}\r\n\r\n`;
}

function pipe(one: Duplex, other: Duplex, clock: Pick<Clock, 'after'>): void {
  const end = () => {
    cancel();
    one.destroy();
    other.destroy();
  };
  let cancel = () => {};
  for (const side of [one, other]) {
    side.on('error', end);
    side.once('close', end);
    side.once('end', () => {
      cancel();
      cancel = clock.after(farewell_ms, end);
    });
  }
  one.pipe(other);
  other.pipe(one);
}

/** Something that is used is not idle: said now and then, not for each keystroke. */
function watchUse({ socket, clock, touched }: Tunnel): void {
  let said_at = clock.monotonic();
  socket.on('data', () => {
    const now = clock.monotonic();
    if (now - said_at < touch_every_ms) return;
    said_at = now;
    touched();
  });
}
