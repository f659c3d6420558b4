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
import { chunkWith, createRepeat } from './repeat.ts';
import type { Listener } from './stream-sink.ts';
import type { Fields } from './whole/fields.ts';
import type { StreamedApi, Whole } from './whole/whole.ts';

export function createWholeSink(api: StreamedApi, whole: Whole, listener: Listener): Sink {
  return new WholeSink(api, whole, listener);
}

/** A class, for each open answer has one. */
class WholeSink implements Sink {
  readonly #api: StreamedApi;
  readonly #whole: Whole;
  readonly #listener: Listener;
  readonly #frames = createFrames(limits.gateway_frame_bytes, (bytes, from, to) =>
    this.#onFrame(bytes, from, to),
  );
  readonly #repeat = createRepeat();
  /** What the frame says that others are recognised by, and their text, not yet taken. */
  #said: Fields = {};
  #text = '';
  #pieces = 0;
  #bytes_taken = 0;
  #ending: Ending | null = null;

  constructor(api: StreamedApi, whole: Whole, listener: Listener) {
    this.#api = api;
    this.#whole = whole;
    this.#listener = listener;
  }

  take(chunk: Buffer): 'more' | Ending {
    this.#bytes_taken += chunk.length;
    const fits = this.#bytes_taken <= limits.gateway_whole_bytes && this.#frames.push(chunk);
    if (this.#pieces > 0) this.#listener.pieces(this.#pieces);
    this.#pieces = 0;
    return fits ? (this.#ending ?? 'more') : failedBy(refusals.engineTooMuch);
  }

  ended(): Ending {
    return this.#ending ?? failedBy(refusals.engineCut);
  }

  #onFrame(bytes: Buffer, from: number, to: number): void {
    if (this.#ending !== null) return;
    const text_at = this.#repeat.textAt(bytes, from, to);
    if (text_at !== null) {
      this.#text += bytes.toString('utf8', text_at, this.#repeat.textEnd(to));
      this.#pieces += 1;
      return;
    }
    this.#takeText();
    const { meaning, chunk } = readEvent(this.#api, readFrame(bytes, from, to));
    if (meaning.is === 'failed') this.#ending = failedBy(meaning.refusal);
    if (meaning.is === 'done') this.#ending = this.#end();
    if (chunk === null) return;
    this.#whole.see(chunk);
    this.#listener.said(chunk, meaning.is === 'content' || meaning.is === 'finish');
    if (meaning.is === 'content' && this.#api === 'chat') {
      if (this.#repeat.learn(bytes, from, to, chunk)) this.#said = chunk;
    }
    if (meaning.is === 'finish' && this.#api === 'responses') this.#ending = this.#end();
  }

  #takeText(): void {
    if (this.#text !== '') this.#whole.see(chunkWith(this.#said, this.#text));
    this.#text = '';
  }

  #end(): Ending {
    if (!this.#whole.isWhole()) return failedBy(refusals.engineUnfinished);
    return { is: 'whole', last: JSON.stringify(this.#whole.result(this.#listener.usage())) };
  }
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
