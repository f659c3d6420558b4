/**
 * Gets one answer from one engine to the client, with every way in which it can end.
 *
 * Invariants: until the first byte of the answer a failure is an exact status; after it, an event
 * stream gets one `data: {"error":…}` event and then a broken connection, and anything else just
 * the broken connection. Never a clean end, never a `[DONE]` that the engine did not send.
 */
import type { IncomingMessage } from 'node:http';
import { ask, type EngineQuestion } from './ask.ts';
import type { RunConnections } from './connections.ts';
import { errorBody, type Refusal, refusalOfEngine, refusals } from './errors.ts';
import { type Exchange, farewell_ms, refusalOfStop, refuse } from './exchange.ts';
import { type Relayed, relay } from './relay.ts';

/** Silence allowed from the question to the first byte: long prompts take minutes on a CPU. */
export const first_byte_ms = 300_000;

const error_body_bytes = 64 * 1024;

export async function answerFromEngine(
  exchange: Exchange,
  connections: RunConnections,
  question: EngineQuestion,
  /** Where no answer of the first began: those of another run, or null. Asked for once. */
  another: (why: 'unreachable' | 'cut') => RunConnections | null = () => null,
): Promise<void> {
  const { response, stop, idle, report } = exchange;
  idle.start(first_byte_ms, () => stop.abort('engine_silent'));
  let asked = await ask(connections, question, stop.signal);
  if (!asked.ok && asked.why !== 'stopped') {
    const other = another(asked.why);
    if (other !== null) asked = await ask(other, question, stop.signal);
  }
  if (!asked.ok) {
    idle.stop();
    const unreachable = asked.why === 'unreachable';
    return refuse(exchange, unreachable ? refusals.engineUnreachable : refusals.engineCut);
  }
  const { answer } = asked;
  const status = answer.statusCode ?? 502;
  if (status < 200 || status > 299) {
    const body = await readStart(answer);
    idle.stop();
    return refuse(exchange, refusalOfEngine(status, body));
  }
  const events = /^text\/event-stream\b/i.test(answer.headers['content-type'] ?? '');
  setAnswerHeaders(exchange, answer, events);
  const relayed = await relay(answer, response, { stop, idle, events });
  report.bytes = relayed.bytes;
  if (relayed.end === 'whole') return;
  answer.destroy();
  const refusal = relayed.end === 'cut' ? refusals.engineCut : refusalOfStop(stop.signal.reason);
  if (!response.headersSent) {
    for (const name of ['Content-Length', 'X-Accel-Buffering']) response.removeHeader(name);
    return refuse(exchange, refusal);
  }
  report.outcome = relayed.end === 'cut' ? refusals.engineCut.code : String(stop.signal.reason);
  await breakOff(exchange, relayed, refusal);
}

/** Headers go out with the first byte of the body, so that a cut before it can still be told. */
function setAnswerHeaders({ response }: Exchange, answer: IncomingMessage, events: boolean): void {
  response.statusCode = answer.statusCode ?? 200;
  response.setHeader('Content-Type', answer.headers['content-type'] ?? 'application/json');
  response.setHeader('Cache-Control', 'no-cache, no-transform');
  if (events) response.setHeader('X-Accel-Buffering', 'no');
  const length = answer.headers['content-length'];
  if (length !== undefined) response.setHeader('Content-Length', length);
}

/** Breaks the client's connection, after telling it why where the answer has a place for that. */
async function breakOff(exchange: Exchange, relayed: Relayed, refusal: Refusal): Promise<void> {
  const { response, request_id, stop, idle } = exchange;
  const listening = !['client_left', 'client_stalled'].includes(stop.signal.reason);
  if (relayed.watch && !relayed.watch.hasError() && listening && !response.destroyed) {
    const event = `\n\ndata: ${JSON.stringify(errorBody(refusal, request_id))}\n\n`;
    await new Promise<void>((resolve) => {
      response.once('close', resolve);
      idle.start(farewell_ms, resolve);
      response.write(event, () => resolve());
    });
  }
  response.destroy();
}

/** The first bytes of an engine's error, as far as they come. */
function readStart(answer: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = () => resolve(Buffer.concat(chunks));
    answer.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > error_body_bytes) answer.destroy();
    });
    answer.once('end', settle);
    answer.once('close', settle);
  });
}
