/**
 * Sends one question to an engine, up to the headers of its answer.
 *
 * Invariants: settles at once when `stop` is told, and the connection is destroyed then, in this
 * phase and in every later one; a kept connection that turns out dead before any byte of an
 * answer is replaced by a fresh one, once; nothing else is sent to it twice. The client's headers
 * never reach the engine.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { limits } from '../contract/limits.ts';
import { DialError } from '../lib/dialled-agent.ts';
import type { RunConnections } from './connections.ts';
import type { Deadlines } from './deadlines.ts';
import type { Stop } from './stop.ts';

export type EngineQuestion = { path: string; body: Buffer; stream: boolean };

/**
 * unreachable: no connection; cut: it ended without headers; silent: nothing came for too long;
 * stopped: `stop` was told.
 */
export type NoAnswer = 'unreachable' | 'cut' | 'silent' | 'stopped';
export type Asked = { ok: true; answer: IncomingMessage } | { ok: false; why: NoAnswer };

export type AskOptions = { stop: Stop; deadlines: Deadlines };

export async function ask(
  connections: RunConnections,
  question: EngineQuestion,
  options: AskOptions,
): Promise<Asked> {
  const first = await attempt(connections, question, options);
  if (!first.stale) return first.asked;
  // What else is kept is as old, so the second attempt must find none of it.
  connections.dropIdle();
  return (await attempt(connections, question, options)).asked;
}

type Attempt = { asked: Asked; stale: boolean };

function attempt(
  connections: RunConnections,
  question: EngineQuestion,
  { stop, deadlines }: AskOptions,
): Promise<Attempt> {
  return new Promise((resolve) => {
    if (stop.reason() !== null) return resolve(none('stopped'));
    let heard = false;
    const request = httpRequest({
      agent: connections,
      method: 'POST',
      path: question.path,
      host: 'localhost',
      headers: headersForEngine(question),
    });
    const giveUp = (why: NoAnswer) => {
      resolve(none(why));
      request.destroy();
    };
    const undo = stop.on(() => giveUp('stopped'));
    deadlines.set('silence', limits.gateway_connect_ms, () => giveUp('unreachable'));
    request.on('socket', (connection) => {
      deadlines.set('silence', limits.gateway_first_byte_ms, () => giveUp('silent'));
      watchFirstByte(connection, () => (heard = true));
    });
    request.on('response', (answer) => {
      // Errors of the answer are the pump's; without a listener they would end the process.
      answer.on('error', () => {});
      resolve({ asked: { ok: true, answer }, stale: false });
    });
    const onCut = () => resolve({ ...none('cut'), stale: request.reusedSocket && !heard });
    request.on('error', (error) =>
      error instanceof DialError ? resolve(none('unreachable')) : onCut(),
    );
    request.on('close', () => {
      undo();
      onCut();
    });
    request.end(question.body);
  });
}

function none(why: NoAnswer): Attempt {
  return { asked: { ok: false, why }, stale: false };
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
