/**
 * Sends one question to an engine, up to the headers of its answer.
 *
 * Invariants: settles at once when `stop` is told, and the connection is destroyed then, in this
 * phase and in every later one; a kept connection that turns out dead before any byte of an
 * answer is replaced by a fresh one, once; nothing else is sent to it twice. The client's headers
 * never reach the engine.
 */
import { limits } from '../contract/limits.ts';
import type { HttpAnswer, HttpConnection } from '../lib/http-connection.ts';
import type { RunConnections } from './connections.ts';
import type { Deadlines } from './deadlines.ts';
import type { Stop } from './stop.ts';

/** `body`: JSON. */
export type EngineQuestion = { path: string; body: string; stream: boolean };

/**
 * unreachable: no connection; cut: it ended without headers; silent: nothing came for too long;
 * stopped: `stop` was told.
 */
export type NoAnswer = 'unreachable' | 'cut' | 'silent' | 'stopped';
export type Asked = { ok: true; answer: HttpAnswer } | { ok: false; why: NoAnswer };

export type AskOptions = { stop: Stop; deadlines: Deadlines };

export async function ask(
  connections: RunConnections,
  question: EngineQuestion,
  options: AskOptions,
): Promise<Asked> {
  const { stop, deadlines } = options;
  if (stop.reason() !== null) return none('stopped');
  const sent = textOf(question);
  const kept = connections.takeIdle();
  if (kept !== null) {
    const asked = await askOver(kept, sent, options);
    if (asked.ok || !asked.is_stale) return asked;
    // What else is kept is as old, so the second attempt must find none of it.
    connections.dropIdle();
  }
  const fresh = await open(connections, stop, deadlines);
  return typeof fresh === 'string' ? none(fresh) : askOver(fresh, sent, options);
}

/** A fresh connection; one that comes too late is closed. */
function open(
  connections: RunConnections,
  stop: Stop,
  deadlines: Deadlines,
): Promise<HttpConnection | NoAnswer> {
  return new Promise((resolve) => {
    let is_late = false;
    const settle = (found: HttpConnection | NoAnswer) => {
      is_late = true;
      undo();
      resolve(found);
    };
    const undo = stop.on(() => settle('stopped'));
    deadlines.set('silence', limits.gateway_connect_ms, () => settle('unreachable'));
    connections.open().then(
      (connection) => (is_late ? connection.destroy() : settle(connection)),
      () => settle('unreachable'),
    );
  });
}

type AskedOver = { ok: true; answer: HttpAnswer } | (Asked & { ok: false; is_stale: boolean });

/** `is_stale`: it was kept, and dead before anything came. */
function askOver(
  connection: HttpConnection,
  sent: string,
  { stop, deadlines }: AskOptions,
): Promise<AskedOver> {
  return new Promise((resolve) => {
    const giveUp = (why: NoAnswer) => {
      undo();
      connection.destroy();
      resolve({ ...none(why), is_stale: false });
    };
    const undo = stop.on(() => giveUp('stopped'));
    deadlines.set('silence', limits.gateway_first_byte_ms, () => giveUp('silent'));
    const was_used = connection.isUsed();
    connection.ask(sent, {
      answered(answer) {
        undo();
        resolve({ ok: true, answer });
      },
      failed(heard) {
        undo();
        resolve({ ...none('cut'), is_stale: was_used && !heard });
      },
    });
  });
}

function none(why: NoAnswer): Asked & { ok: false } {
  return { ok: false, why };
}

/** As one text it leaves in one piece, without a copy of its own. */
function textOf({ path, body, stream }: EngineQuestion): string {
  const accept = stream ? 'text/event-stream' : 'application/json';
  const lines = `Host: localhost\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n`;
  const rest = `Accept: ${accept}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return `POST ${path} HTTP/1.1\r\n${lines}${rest}${body}`;
}
