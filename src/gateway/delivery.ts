/**
 * The client's side of a streamed answer, through all attempts to get one.
 *
 * Invariants: nothing is sent until an answer has content, or the client waited for so long that it
 * is told to wait: then 200 and a comment from time to time, and the truth about who answered as a
 * last comment. What fails before is an exact status; after it one `data: {"error":…}` event and
 * a broken connection: never a clean end, never a `[DONE]` (ADR-0064).
 */
import { limits } from '../contract/limits.ts';
import { errorBody, type Refusal } from './errors.ts';
import { type Exchange, refuse } from './exchange.ts';
import { isClientGone, toldOf } from './stop.ts';

export type Delivery = {
  /** Part of an answer has gone out: no other may follow. */
  isCommitted(): boolean;
  /** The answer has content: what is known of who gives it is sent with it. */
  commit(): void;
  /** False: the client takes no more for now. */
  write(bytes: Buffer): boolean;
  /** The last bytes of a whole answer. */
  end(last: Buffer | string): void;
  fail(refusal: Refusal): void;
};

const waiting_for = 'pending';
const ping = Buffer.from(': waiting\n\n');

export function openDelivery(exchange: Exchange): Delivery {
  return new Open(exchange);
}

/** A class, for each open stream has one. */
class Open implements Delivery {
  readonly #exchange: Exchange;
  #sent: 'nothing' | 'pending' | 'answer' = 'nothing';
  #is_pending = false;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    exchange.deadlines.set('hold', limits.gateway_hold_ms, () => this.#wait());
  }

  isCommitted(): boolean {
    return this.#sent === 'answer';
  }

  commit(): void {
    const { deadlines, headers } = this.#exchange;
    deadlines.clear('hold');
    if (this.#sent === 'nothing') {
      sendHead(this.#exchange, headers);
      this.#keepAwake();
    }
    this.#sent = 'answer';
  }

  write(bytes: Buffer): boolean {
    const { report, deadlines, response } = this.#exchange;
    report.bytes += bytes.length;
    deadlines.touch('ping');
    return response.write(bytes);
  }

  end(last: Buffer | string): void {
    const { report, deadlines, response, headers } = this.#exchange;
    deadlines.clear('ping');
    report.bytes += Buffer.byteLength(last);
    if (this.#is_pending) response.write(truth(headers));
    response.end(last);
  }

  fail(refusal: Refusal): void {
    const { report, deadlines, stop } = this.#exchange;
    deadlines.clear('hold');
    deadlines.clear('ping');
    if (this.#sent === 'nothing') {
      refuse(this.#exchange, refusal);
      return;
    }
    const told = toldOf(stop, refusal);
    report.code = told.code ?? 'failed';
    report.is_broken = stop.reason() !== 'client_left';
    breakOff(this.#exchange, told);
  }

  #wait(): void {
    const { response, headers } = this.#exchange;
    if (this.#sent !== 'nothing' || response.destroyed) return;
    this.#sent = 'pending';
    this.#is_pending = true;
    sendHead(this.#exchange, { ...headers, ...pending_headers });
    // Node keeps the head until there is a body.
    response.write(ping);
    this.#keepAwake();
  }

  #keepAwake(): void {
    const { response, deadlines } = this.#exchange;
    deadlines.set('ping', limits.gateway_ping_ms, () => {
      if (!response.writableNeedDrain && !response.destroyed) response.write(ping);
      this.#keepAwake();
    });
  }
}

const pending_headers = {
  'X-Einsora-Served-By': waiting_for,
  'X-Einsora-Fallback': waiting_for,
  'X-Einsora-Attempts': waiting_for,
};

function sendHead({ response }: Exchange, headers: Record<string, string>): void {
  response.writeHead(200, {
    ...headers,
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-cache, no-transform',
    'X-Accel-Buffering': 'no',
  });
}

/** What the headers could not say any more. */
function truth(headers: Record<string, string>): string {
  const names = Object.keys(pending_headers);
  const lines = names.map((name) => `: ${name}: ${headers[name] ?? 'unknown'}\n`);
  return `${lines.join('')}\n`;
}

/** Breaks the client's connection, after telling it why where it still listens. */
function breakOff({ response, request_id, stop, deadlines }: Exchange, told: Refusal): void {
  if (isClientGone(stop.reason()) || response.destroyed) return void response.destroy();
  const giveUp = () => response.destroy();
  deadlines.set('silence', limits.gateway_farewell_ms, giveUp);
  response.write(`data: ${JSON.stringify(errorBody(told, request_id))}\n\n`, giveUp);
}
