/**
 * Carries an engine's answer to the client: bytes through untouched, each chunk as it comes.
 *
 * Invariants: never more than one refused chunk is held (a slow client slows the engine down); an
 * answer that was cut never ends like a whole one; `stop` ends it at once.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { IdleTimer } from './idle-timer.ts';
import { createSseWatch, type SseWatch } from './sse-watch.ts';

/** Silence allowed between two bytes of an answer, and for a client that takes none. */
export const between_bytes_ms = 120_000;

export type Relayed = {
  /** stopped: `stop` aborted, and its reason says why. */
  end: 'whole' | 'cut' | 'stopped';
  /** Bytes of the answer handed to the client. */
  bytes: number;
  watch: SseWatch | null;
};

export type RelayOptions = {
  stop: AbortController;
  idle: IdleTimer;
  /** Is it an event stream, whose last event must be `[DONE]`? */
  events: boolean;
};

/** Sends the body of `answer`; the headers must be set. Ends the response only if it came whole. */
export function relay(
  answer: IncomingMessage,
  response: ServerResponse,
  { stop, idle, events }: RelayOptions,
): Promise<Relayed> {
  const watch = events ? createSseWatch() : null;
  let bytes = 0;
  return new Promise((resolve) => {
    const settle = (end: Relayed['end']) => {
      idle.stop();
      answer.removeListener('data', onData);
      response.removeListener('drain', onDrain);
      stop.signal.removeEventListener('abort', onStop);
      // After [DONE] the client has all of it, however the engine's side ends.
      const known = watch?.isDone() && end === 'cut' ? 'whole' : end;
      if (known === 'whole') response.end();
      resolve({ end: known, bytes, watch });
    };
    const onSilence = () => {
      if (watch?.isDone()) answer.destroy();
      else stop.abort('engine_silent');
    };
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      watch?.see(chunk);
      if (response.write(chunk)) return idle.start(between_bytes_ms, onSilence);
      answer.pause();
      idle.start(between_bytes_ms, () => stop.abort('client_stalled'));
    };
    const onDrain = () => {
      idle.start(between_bytes_ms, onSilence);
      answer.resume();
    };
    const onStop = () => settle('stopped');
    if (stop.signal.aborted) return onStop();
    stop.signal.addEventListener('abort', onStop, { once: true });
    response.on('drain', onDrain);
    answer.on('data', onData);
    answer.once('end', () =>
      settle(answer.complete && watch?.isDone() !== false ? 'whole' : 'cut'),
    );
    answer.once('close', () => settle('cut'));
  });
}
