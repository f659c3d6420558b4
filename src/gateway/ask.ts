/**
 * Sends one question to an engine, up to the headers of its answer.
 *
 * Invariants: settles at once when `stop` aborts, and the connection is destroyed then, in this
 * phase and in every later one; a kept connection that turns out dead before any byte of an
 * answer is replaced by a fresh one, once; nothing else is sent to it twice. The client's headers
 * never reach the engine.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { DialError } from '../lib/dialled-agent.ts';
import type { RunConnections } from './connections.ts';

export type EngineQuestion = { path: string; body: Buffer; stream: boolean };

export type Asked =
  | { ok: true; answer: IncomingMessage }
  /** unreachable: no connection; cut: it ended without headers; stopped: `stop` aborted. */
  | { ok: false; why: 'unreachable' | 'cut' | 'stopped'; cause: unknown };

export async function ask(
  connections: RunConnections,
  question: EngineQuestion,
  stop: AbortSignal,
): Promise<Asked> {
  const first = await attempt(connections, question, stop);
  if (!first.stale) return first.asked;
  // What else is kept is as old, so the second attempt must find none of it.
  connections.dropIdle();
  return (await attempt(connections, question, stop)).asked;
}

type Attempt = { asked: Asked; stale: boolean };

function attempt(
  connections: RunConnections,
  question: EngineQuestion,
  stop: AbortSignal,
): Promise<Attempt> {
  return new Promise((resolve) => {
    let heard = false;
    const request = httpRequest({
      agent: connections,
      method: 'POST',
      path: question.path,
      host: 'localhost',
      headers: headersForEngine(question),
    });
    const fail = (why: 'unreachable' | 'cut' | 'stopped', cause: unknown) => {
      const stale = why === 'cut' && request.reusedSocket && !heard;
      resolve({ asked: { ok: false, why, cause }, stale });
    };
    const onStop = () => {
      fail('stopped', stop.reason);
      request.destroy();
    };
    stop.addEventListener('abort', onStop, { once: true });
    request.on('socket', (connection) => watchFirstByte(connection, () => (heard = true)));
    request.on('response', (answer) => {
      // Errors of the answer are the relay's; without a listener they would end the process.
      answer.on('error', () => {});
      resolve({ asked: { ok: true, answer }, stale: false });
    });
    request.on('error', (error) => fail(error instanceof DialError ? 'unreachable' : 'cut', error));
    request.on('close', () => fail('cut', 'closed'));
    if (stop.aborted) onStop();
    else request.end(question.body);
  });
}

function headersForEngine(question: EngineQuestion) {
  return {
    'Content-Type': 'application/json',
    'Content-Length': question.body.length,
    Accept: question.stream ? 'text/event-stream' : 'application/json',
    Host: 'localhost',
  };
}

/** Even half a status line counts: it proves that the engine took the question. */
function watchFirstByte(connection: Duplex, onByte: () => void): void {
  connection.prependOnceListener('data', onByte);
}
