/**
 * Reads the answer of one replica.
 *
 * Invariants: nothing of an earlier try is known to it; what an engine answers other than with
 * success is a failure with the engine's own words, in OpenAI's shape.
 */
import { limits } from '../contract/limits.ts';
import type { HttpAnswer } from '../lib/http-connection.ts';
import type { Asked, NoAnswer } from './ask.ts';
import { refusalOfEngine } from './engines/refusal.ts';
import { type Refusal, refusals } from './errors.ts';
import { type Ending, failedBy, type PumpOptions, pump, type Sink } from './pump.ts';

export type ReadOptions = PumpOptions & {
  /** What takes the answer, by whether it is an event stream; null: it is no use as such. */
  sinkOf(is_stream: boolean): Sink | null;
};

export type Tried = { ending: Ending; is_unreachable: boolean };

export async function readAnswer(asked: Asked, options: ReadOptions): Promise<Tried> {
  if (!asked.ok) return notAnswered(asked);
  return { ending: await pumpAnswer(asked.answer, options), is_unreachable: false };
}

function notAnswered({ why }: Asked & { ok: false }): Tried {
  const ending: Ending = why === 'stopped' ? { is: 'stopped' } : failedBy(refusalOf(why));
  return { ending, is_unreachable: why === 'unreachable' };
}

function refusalOf(why: Exclude<NoAnswer, 'stopped'>): Refusal {
  switch (why) {
    case 'unreachable':
      return refusals.engineUnreachable;
    case 'cut':
      return refusals.engineCut;
    case 'silent':
      return refusals.engineSilent;
  }
}

function pumpAnswer(answer: HttpAnswer, options: ReadOptions): Ending | Promise<Ending> {
  const { status, headers } = answer;
  if (status < 200 || status > 299) return pump(answer, errorSink(status), options);
  const is_stream = /^text\/event-stream\b/i.test(headers.get('content-type') ?? '');
  const sink = options.sinkOf(is_stream);
  if (sink !== null) return pump(answer, sink, options);
  answer.destroy();
  return failedBy(refusals.engineGarbled);
}

/** Reads the beginning of an engine's error, as far as it comes. */
function errorSink(status: number): Sink {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const told = () => failedBy(refusalOfEngine(status, Buffer.concat(chunks)));
  return {
    take(chunk) {
      chunks.push(chunk);
      bytes += chunk.length;
      return bytes > limits.gateway_error_bytes ? told() : 'more';
    },
    ended: told,
  };
}
