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
  const { stop, deadlines, response, clock } = options;
  let is_flowing = false;
  let is_waiting = false;
  let is_settled = false;
  if (stop.reason() !== null) {
    answer.destroy();
    return Promise.resolve({ is: 'stopped' });
  }
  return new Promise((resolve) => {
    const onSilence = () => settle(failedBy(refusals.engineSilent));
    const undo = stop.on(() => settle({ is: 'stopped' }));
    response.on('drain', onDrain);
    answer.read({
      data: onData,
      end(is_whole) {
        if (!is_settled) settle(sink.ended(is_whole));
      },
    });

    function settle(ending: Ending): void {
      if (is_settled) return;
      is_settled = true;
      deadlines.clear('silence');
      response.removeListener('drain', onDrain);
      undo();
      if (ending.is === 'whole') drain(answer, clock);
      else answer.destroy();
      resolve(ending);
    }

    function onData(chunk: Buffer): void {
      if (is_settled) return;
      if (is_flowing) deadlines.touch('silence');
      else flow();
      const taken = sink.take(chunk);
      if (taken === 'wait') wait();
      else if (taken !== 'more') settle(taken);
    }

    function flow(): void {
      is_flowing = true;
      is_waiting = false;
      deadlines.set('silence', limits.gateway_silence_ms, onSilence);
    }

    function wait(): void {
      answer.pause();
      is_flowing = false;
      is_waiting = true;
      deadlines.set('silence', limits.gateway_silence_ms, () => stop.now('client_stalled'));
    }

    function onDrain(): void {
      if (is_settled || !is_waiting) return;
      flow();
      answer.resume();
    }
  });
}

/** Reads what is left of an answer that is whole already, for a moment. */
function drain(answer: HttpAnswer, clock: Pick<Clock, 'after'>): void {
  if (answer.isOver()) return;
  const cancel = clock.after(limits.gateway_drain_ms, () => answer.destroy());
  answer.read({ data() {}, end: cancel });
}
