/**
 * One request with its response, and what is known of how it goes.
 *
 * Invariants: `stop` is told as soon as the client is gone before it had everything; after that
 * nothing is written; `ended` always settles, however slow the client is.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import { createDeadlines, type Deadlines } from './deadlines.ts';
import { errorBody, type Refusal, refusalHeaders } from './errors.ts';
import { newReport, type Report } from './report.ts';
import { createStop, isClientGone, type Stop, toldOf } from './stop.ts';

export type Exchange = {
  request: IncomingMessage;
  response: ServerResponse;
  request_id: string;
  stop: Stop;
  deadlines: Deadlines;
  /** That go out with whatever it is answered. */
  headers: Record<string, string>;
  report: Report;
  /** Resolves when the response has gone out or broken. */
  ended(): Promise<void>;
};

export function openExchange(
  request: IncomingMessage,
  response: ServerResponse,
  request_id: string,
  clock: Pick<Clock, 'after' | 'monotonic' | 'now'>,
): Exchange {
  const stop = createStop();
  const deadlines = createDeadlines(clock);
  const report = newReport(clock);
  const closed = new Promise<void>((resolve) => {
    response.once('close', () => {
      // Where the gateway itself broke the connection, the outcome has been told already.
      if (!response.writableFinished && !report.is_broken) stop.now('client_left');
      resolve();
    });
  });
  response.on('error', () => {});
  const ended = async () => {
    const giveUp = () => response.destroy();
    const is_over = report.is_broken || stop.reason() !== null;
    const ms = is_over ? limits.gateway_farewell_ms : limits.gateway_silence_ms;
    deadlines.set('silence', ms, giveUp);
    const undo = stop.on(() => deadlines.set('silence', limits.gateway_farewell_ms, giveUp));
    await closed;
    undo();
    deadlines.stop();
  };
  const headers = { 'X-Request-ID': request_id, 'X-Content-Type-Options': 'nosniff' };
  return { request, response, request_id, stop, deadlines, headers, report, ended };
}

/** Ends the exchange with a refusal, or silently where nobody is left to read one. */
export function refuse(exchange: Exchange, refusal: Refusal): void {
  const { request, response, request_id, report, stop, headers } = exchange;
  const told = toldOf(stop, refusal);
  report.code = told.code ?? 'refused';
  if (response.destroyed || isClientGone(stop.reason())) return void response.destroy();
  const text = JSON.stringify(errorBody(told, request_id));
  const bytes = Buffer.byteLength(text);
  const has_body = request.method !== 'HEAD';
  report.bytes = has_body ? bytes : 0;
  report.is_refused = true;
  response.writeHead(told.status, {
    ...headers,
    ...refusalHeaders(told),
    'Content-Type': 'application/json',
    'Content-Length': bytes,
    'Cache-Control': 'no-store',
  });
  response.end(has_body ? text : undefined);
}

/** Answers with a whole document in JSON. A text leaves in one piece with the head. */
export function sendWhole(
  { response, report, headers }: Exchange,
  document: Buffer | string,
): void {
  if (response.destroyed) return;
  report.bytes = Buffer.byteLength(document);
  response.writeHead(200, {
    ...headers,
    'Content-Type': 'application/json',
    'Content-Length': report.bytes,
    'Cache-Control': 'no-store',
  });
  response.end(document);
}
