/**
 * Carries the bytes of an engine's answer into a sink, at the speed at which the sink takes them.
 *
 * Invariants: settles once, at once when `stop` is told; an answer that is not whole is destroyed
 * with its connection; one that is whole leaves its connection for the next question.
 */
import type { ServerResponse } from 'node:http';
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import type { HttpAnswer } from '../lib/http-connection.ts';
import type { Deadlines } from './deadlines.ts';
import { type Refusal, refusals } from './errors.ts';
import type { Stop } from './stop.ts';

export type Ending =
  /** `last`: what is still to go to the client. */
  { is: 'whole'; last: Buffer | string } | { is: 'failed'; refusal: Refusal } | { is: 'stopped' };

export type Sink = {
  /** wait: no more until the client has drained. */
  take(chunk: Buffer): 'more' | 'wait' | Ending;
  /** The engine's side ended; `complete`: as it should. */
  ended(complete: boolean): Ending;
};

export type PumpOptions = {
  stop: Stop;
  deadlines: Deadlines;
  response: ServerResponse;
  clock: Pick<Clock, 'after'>;
};

export function failedBy(refusal: Refusal): Ending {
  return { is: 'failed', refusal };
}

export function pump(answer: HttpAnswer, sink: Sink, options: PumpOptions): Promise<Ending> {
  if (options.stop.reason() !== null) {
    answer.destroy();
    return Promise.resolve({ is: 'stopped' });
  }
  return new Promise((resolve) => new Pump(answer, sink, options, resolve).begin());
}

/** A class, for each open answer has one. */
class Pump {
  readonly #answer: HttpAnswer;
  readonly #sink: Sink;
  readonly #options: PumpOptions;
  readonly #resolve: (ending: Ending) => void;
  readonly #onDrain = () => this.#drained();
  readonly #onSilence = () => this.#settle(failedBy(refusals.engineSilent));
  #undo = () => {};
  #is_flowing = false;
  #is_waiting = false;
  #is_settled = false;

  constructor(
    answer: HttpAnswer,
    sink: Sink,
    options: PumpOptions,
    resolve: (ending: Ending) => void,
  ) {
    this.#answer = answer;
    this.#sink = sink;
    this.#options = options;
    this.#resolve = resolve;
  }

  begin(): void {
    const { stop, response } = this.#options;
    this.#undo = stop.on(() => this.#settle({ is: 'stopped' }));
    response.on('drain', this.#onDrain);
    this.#answer.read(this);
  }

  data(chunk: Buffer): void {
    if (this.#is_settled) return;
    if (this.#is_flowing) this.#options.deadlines.touch('silence');
    else this.#flow();
    const taken = this.#sink.take(chunk);
    if (taken === 'wait') this.#wait();
    else if (taken !== 'more') this.#settle(taken);
  }

  end(is_whole: boolean): void {
    if (!this.#is_settled) this.#settle(this.#sink.ended(is_whole));
  }

  #settle(ending: Ending): void {
    if (this.#is_settled) return;
    this.#is_settled = true;
    const { deadlines, response, clock } = this.#options;
    deadlines.clear('silence');
    response.removeListener('drain', this.#onDrain);
    this.#undo();
    if (ending.is === 'whole') drain(this.#answer, clock);
    else this.#answer.destroy();
    this.#resolve(ending);
  }

  #flow(): void {
    this.#is_flowing = true;
    this.#is_waiting = false;
    this.#options.deadlines.set('silence', limits.gateway_silence_ms, this.#onSilence);
  }

  #wait(): void {
    const { deadlines, stop } = this.#options;
    this.#answer.pause();
    this.#is_flowing = false;
    this.#is_waiting = true;
    deadlines.set('silence', limits.gateway_silence_ms, () => stop.now('client_stalled'));
  }

  #drained(): void {
    if (this.#is_settled || !this.#is_waiting) return;
    this.#flow();
    this.#answer.resume();
  }
}

/** Reads what is left of an answer that is whole already, for a moment. */
function drain(answer: HttpAnswer, clock: Pick<Clock, 'after'>): void {
  if (answer.isOver()) return;
  const cancel = clock.after(limits.gateway_drain_ms, () => answer.destroy());
  answer.read({ data() {}, end: cancel });
}
