/**
 * One request with its response, and what is known of how it goes.
 *
 * Invariants: `stop` aborts as soon as the client is gone before it had everything; after that
 * nothing is written; `ended` always settles, however slow the client is.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../lib/clock.ts';
import { type Refusal, refusals, sendRefusal } from './errors.ts';
import { createIdleTimer, type IdleTimer } from './idle-timer.ts';
import { between_bytes_ms } from './relay.ts';

/** How long the last bytes may take to reach a client once the exchange is stopped. */
export const farewell_ms = 5_000;

/** Why an exchange was stopped: the reason of `stop`. */
export type StopReason = 'client_left' | 'client_stalled' | 'engine_silent' | 'shutting_down';

export type Exchange = {
  request: IncomingMessage;
  response: ServerResponse;
  request_id: string;
  stop: AbortController;
  /** The one timer for silence, of whichever phase it is. */
  idle: IdleTimer;
  /** For the log line. */
  report: { tenant: string | null; endpoint: string | null; outcome: string; bytes: number };
  /** Resolves when the response has gone out or broken. */
  ended(): Promise<void>;
};

export function openExchange(
  request: IncomingMessage,
  response: ServerResponse,
  request_id: string,
  clock: Pick<Clock, 'after'>,
): Exchange {
  const stop = new AbortController();
  const idle = createIdleTimer(clock);
  const report = { tenant: null, endpoint: null, outcome: 'answered', bytes: 0 };
  const closed = new Promise<void>((resolve) => {
    response.once('close', () => {
      if (!response.writableFinished && !stop.signal.aborted) {
        // Where the gateway itself broke the connection, the outcome has been told already.
        if (report.outcome === 'answered') report.outcome = 'client_left';
        stop.abort('client_left');
      }
      resolve();
    });
  });
  response.on('error', () => {});
  response.setHeader('X-Request-ID', request_id);
  const ended = () => {
    const giveUp = () => response.destroy();
    idle.start(stop.signal.aborted ? farewell_ms : between_bytes_ms, giveUp);
    stop.signal.addEventListener('abort', () => idle.start(farewell_ms, giveUp));
    return closed.finally(() => idle.stop());
  };
  return { request, response, request_id, stop, idle, report, ended };
}

/** Why nothing more may come of it, as the client is told. */
export function refusalOfStop(reason: StopReason): Refusal {
  return reason === 'engine_silent' ? refusals.engineSilent : refusals.shuttingDown;
}

/** Ends the exchange with a refusal, or silently where nobody is left to read one. */
export function refuse(exchange: Exchange, refusal: Refusal): void {
  const { request, response, request_id, report, stop } = exchange;
  if (response.destroyed) return;
  const told: Refusal = stop.signal.aborted ? refusalOfStop(stop.signal.reason) : refusal;
  report.outcome = told.code ?? 'refused';
  report.bytes = sendRefusal(response, told, request_id, request.method !== 'HEAD');
}

export function sendJson({ response, report }: Exchange, body: unknown): void {
  if (response.destroyed) return;
  const text = Buffer.from(JSON.stringify(body));
  report.bytes = text.length;
  response.writeHead(200, {
    'Content-Type': 'application/json',
    'Content-Length': text.length,
    'Cache-Control': 'no-store',
  });
  response.end(text);
}
