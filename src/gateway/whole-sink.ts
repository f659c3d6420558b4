/**
 * Takes an engine's event stream for a client that asked for no stream, and builds the answer.
 *
 * Invariants: an answer is whole only where the engine said why it ended, and that nothing comes
 * after it; no more of it is kept than `gateway_whole_bytes` came.
 */
import { limits } from '../contract/limits.ts';
import { refusals } from './errors.ts';
import { readFrame } from './frame.ts';
import { createFrames } from './frames.ts';
import { readEvent } from './meaning.ts';
import { type Ending, failedBy, type Sink } from './pump.ts';
import { createRepeat } from './repeat.ts';
import type { Listener } from './stream-sink.ts';
import type { StreamedApi, Whole } from './whole/whole.ts';

export function createWholeSink(api: StreamedApi, whole: Whole, listener: Listener): Sink {
  const frames = createFrames(limits.gateway_frame_bytes, onFrame);
  const repeat = createRepeat();
  /** Of frames that were recognised, and not yet taken into the answer. */
  let text = '';
  let pieces = 0;
  let bytes_taken = 0;
  let ending: Ending | null = null;

  function onFrame(bytes: Buffer, from: number, to: number): void {
    if (ending !== null) return;
    const text_at = repeat.textAt(bytes, from, to);
    if (text_at !== null) {
      text += bytes.toString('utf8', text_at, repeat.textEnd(to));
      pieces += 1;
      return;
    }
    takeText();
    const { meaning, chunk } = readEvent(api, readFrame(bytes, from, to));
    if (meaning.is === 'failed') ending = failedBy(meaning.refusal);
    if (meaning.is === 'done') ending = end();
    if (chunk === null) return;
    whole.see(chunk);
    listener.said(chunk, meaning.is === 'content' || meaning.is === 'finish');
    if (meaning.is === 'content' && api === 'chat') repeat.learn(bytes, from, to, chunk);
    if (meaning.is === 'finish' && api === 'responses') ending = end();
  }

  function takeText(): void {
    if (text !== '') whole.see(repeat.chunkWith(text));
    text = '';
  }

  function end(): Ending {
    if (!whole.isWhole()) return failedBy(refusals.engineUnfinished);
    return { is: 'whole', last: JSON.stringify(whole.result(listener.usage())) };
  }

  return {
    take(chunk) {
      bytes_taken += chunk.length;
      const fits = bytes_taken <= limits.gateway_whole_bytes && frames.push(chunk);
      if (pieces > 0) listener.pieces(pieces);
      pieces = 0;
      return fits ? (ending ?? 'more') : failedBy(refusals.engineTooMuch);
    },
    ended: () => ending ?? failedBy(refusals.engineCut),
  };
}

/** Takes an answer that is one JSON document, and passes it on as it is. */
export function createDocumentSink(listener: Pick<Listener, 'said'>): Sink {
  const chunks: Buffer[] = [];
  let bytes_taken = 0;
  return {
    take(chunk) {
      bytes_taken += chunk.length;
      if (bytes_taken > limits.gateway_whole_bytes) return failedBy(refusals.engineTooMuch);
      chunks.push(chunk);
      return 'more';
    },
    ended(complete) {
      if (!complete) return failedBy(refusals.engineCut);
      const document = Buffer.concat(chunks);
      const { meaning, chunk } = readEvent('embeddings', {
        ...{ event: null, data: document.toString('utf8') },
      });
      if (meaning.is === 'failed') return failedBy(meaning.refusal);
      if (chunk === null) return failedBy(refusals.engineGarbled);
      listener.said(chunk, false);
      return { is: 'whole', last: document };
    },
  };
}
