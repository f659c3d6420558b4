/**
 * Carries one request of a browser to the program of a run, and its answer back.
 *
 * Invariants: bytes go through as they come, with no more held than one refused chunk each way; an
 * answer that was cut never looks whole; whoever leaves takes the connection to the program along;
 * a program may answer before it has read the request; only a request without a body, on a kept
 * connection that turned out dead before any answer, is sent a second time.
 */

import type { ServerResponse } from 'node:http';
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import type { DialledAgent } from '../lib/dialled-agent.ts';
import { hasBody } from './answers.ts';
import { headersForBrowser, trailersOf } from './headers.ts';

export type Relay = {
  request: IncomingMessage;
  response: ServerResponse;
  agent: DialledAgent;
  /** The program's request, as `headersForProgram` makes it. */
  headers: string[];
  /** The site's own. */
  origin: string;
  expects_continue: boolean;
  clock: Pick<Clock, 'after'>;
  /** Called once where nothing was answered yet; whoever calls answers the browser. */
  failed(error: unknown): void;
  /** Called once when the browser has its answer, or has left. */
  ended(): void;
};

/** How long a request that nobody wants any more may go on being sent. */
const linger_ms = 5_000;

/** Returns what breaks it off. */
export function relay(ask: Relay): () => void {
  const { request, response } = ask;
  const state: State = { upstream: null, answer: null, is_over: false };
  response.once('close', () => {
    state.is_over = true;
    if (!response.writableFinished) state.upstream?.destroy();
    ask.ended();
  });
  response.on('error', () => {});
  const with_body = hasBody(request);
  sendOn(ask, state, with_body, !with_body);
  return () => {
    state.is_over = true;
    state.upstream?.destroy();
    breakOff(response);
  };
}

type State = { upstream: ClientRequest | null; answer: IncomingMessage | null; is_over: boolean };

function sendOn(ask: Relay, state: State, with_body: boolean, may_repeat: boolean): void {
  const { request, response } = ask;
  const upstream = openUpstream(ask);
  if (upstream === null) return;
  state.upstream = upstream;
  const fail = (error: unknown) => {
    if (state.upstream !== upstream || state.is_over || state.answer !== null) return;
    if (may_repeat && upstream.reusedSocket) {
      // What else is kept is as old, so the second attempt must find none of it.
      ask.agent.dropIdle();
      return sendOn(ask, state, with_body, false);
    }
    state.is_over = true;
    ask.failed(error);
  };
  upstream.on('error', fail);
  upstream.on('close', () => {
    // The usual end: an error is made, with its trace, only for who needs one.
    if (state.answer === null) fail(new Error('it closed the connection without an answer'));
  });
  upstream.on('response', (answer) => {
    state.answer = answer;
    if (state.is_over || response.destroyed) return void upstream.destroy();
    giveAnswer(ask, answer);
  });
  if (ask.expects_continue) upstream.on('continue', () => response.writeContinue());
  if (with_body) sendBody(request, response, upstream, ask.clock);
  else upstream.end();
}

function openUpstream({ request, agent, headers, failed }: Relay): ClientRequest | null {
  try {
    return httpRequest({
      agent,
      headers,
      method: request.method,
      path: request.url,
      maxHeaderSize: limits.site_answer_header_bytes,
    });
  } catch (error) {
    failed(error); // a path or a header that may be received, but not sent
    return null;
  }
}

function sendBody(
  request: IncomingMessage,
  response: ServerResponse,
  upstream: ClientRequest,
  clock: Pick<Clock, 'after'>,
): void {
  const onData = (chunk: Buffer) => {
    if (!upstream.write(chunk)) request.pause();
  };
  upstream.on('drain', () => request.resume());
  request.on('data', onData);
  request.on('error', () => {});
  request.on('end', () => {
    if (request.rawTrailers.length > 0) upstream.addTrailers(trailersOf(request.rawTrailers));
    upstream.end();
  });
  // Cut off in the middle: the program must not take it for the whole.
  request.on('close', () => {
    if (!request.complete) upstream.destroy();
  });
  response.once('finish', () => {
    if (request.complete) return;
    // The answer came first. The rest is read and thrown away, for a while.
    request.off('data', onData);
    upstream.destroy();
    request.resume();
    clock.after(linger_ms, () => {
      if (!request.complete) request.destroy();
    });
  });
}

function giveAnswer({ request, response, origin }: Relay, answer: IncomingMessage): void {
  answer.on('error', () => {});
  try {
    const headers = headersForBrowser(answer.rawHeaders, origin);
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? '', headers);
  } catch {
    answer.destroy(); // a head that cannot be sent on
    breakOff(response);
    return;
  }
  let began = false;
  let waits = false;
  answer.on('data', (chunk: Buffer) => {
    began = true;
    if (response.write(chunk)) return;
    answer.pause();
    if (waits) return;
    waits = true;
    response.once('drain', () => {
      waits = false;
      answer.resume();
    });
  });
  answer.on('end', () => {
    began = true;
    if (!answer.complete) return;
    if (answer.rawTrailers.length > 0 && request.httpVersion === '1.1') {
      response.addTrailers(trailersOf(answer.rawTrailers));
    }
    response.end();
  });
  answer.on('close', () => {
    if (!answer.complete) breakOff(response);
  });
  if (answer.headers['content-length'] !== undefined) return;
  // A stream that has nothing to say yet: its head goes out alone.
  process.nextTick(() => {
    if (!began && !response.writableEnded && !response.destroyed) response.flushHeaders();
  });
}

/** Ends an answer so that it cannot be taken for a whole one, whatever frames it. */
function breakOff(response: ServerResponse): void {
  const { socket, req } = response;
  // Where the end of the connection is the end of the body, only a reset says otherwise.
  const by_close = response.headersSent && req.httpVersion !== '1.1';
  if (by_close && socket !== null) socket.resetAndDestroy();
  response.destroy();
}
