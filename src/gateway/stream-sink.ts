/**
 * Takes an engine's event stream for a client that asked for one.
 *
 * Invariants: only whole frames go on, untouched and in their order; nothing goes on before the
 * answer has content, save where more than `gateway_held_bytes` came without; what ends an answer
 * goes on only after the engine said why it ended.
 */
import { limits } from '../contract/limits.ts';
import { createChoiceEnds } from './choice-ends.ts';
import type { Delivery } from './delivery.ts';
import { refusals } from './errors.ts';
import { mayMatter, readFrame } from './frame.ts';
import { createFrames, type OnFrame } from './frames.ts';
import { nothing_said, readEvent } from './meaning.ts';
import { type Ending, failedBy, type Sink } from './pump.ts';
import { createRepeat } from './repeat.ts';
import type { Fields } from './whole/fields.ts';
import type { StreamedApi } from './whole/whole.ts';

/** Who listens to what an answer says. */
export type Listener = {
  /** Each frame is read, for it may have to be changed. */
  reads_all: boolean;
  /** So many frames with content that were not read. */
  pieces(count: number): void;
  /** A frame that was. What goes to the client in its place; null: nothing. */
  said(chunk: Fields, has_content: boolean): 'as it is' | Buffer | null;
  /** What the engine says that it used; null: nothing yet. */
  usage(): Fields | null;
};

export function createStreamSink(api: StreamedApi, delivery: Delivery, listener: Listener): Sink {
  return new StreamSink(api, delivery, listener);
}

/** A class, for each open answer has one. */
class StreamSink implements Sink {
  readonly #api: StreamedApi;
  readonly #delivery: Delivery;
  readonly #listener: Listener;
  readonly #passage: Passage;
  readonly #frames = createFrames(limits.gateway_frame_bytes, (bytes, from, to) =>
    this.#onFrame(bytes, from, to),
  );
  readonly #repeat = createRepeat();
  readonly #ends = createChoiceEnds();
  #pieces = 0;
  #ending: Ending | null = null;

  constructor(api: StreamedApi, delivery: Delivery, listener: Listener) {
    this.#api = api;
    this.#delivery = delivery;
    this.#listener = listener;
    this.#passage = new Passage(delivery);
  }

  take(chunk: Buffer): 'more' | 'wait' | Ending {
    const fits = this.#frames.push(chunk);
    this.#passage.flush();
    if (this.#pieces > 0) this.#listener.pieces(this.#pieces);
    this.#pieces = 0;
    if (this.#ending !== null) return this.#ending;
    if (!fits) return failedBy(refusals.engineTooMuch);
    return this.#passage.isFull() ? 'wait' : 'more';
  }

  ended(): Ending {
    return this.#ending ?? failedBy(refusals.engineCut);
  }

  #onFrame(bytes: Buffer, from: number, to: number): void {
    if (this.#ending !== null) return;
    if (this.#isPiece(bytes, from, to)) {
      this.#pieces += 1;
      this.#passage.pass(bytes, from, to);
      return;
    }
    const frame = readFrame(bytes, from, to);
    // Client libraries would hand it on as a chunk.
    if (frame.data === nothing_said) return;
    const { meaning, chunk } = readEvent(this.#api, frame);
    switch (meaning.is) {
      case 'failed':
        this.#ending = failedBy(meaning.refusal);
        return;
      case 'done':
        this.#ending = this.#ends.areAll()
          ? { is: 'whole', last: bytes.subarray(from, to) }
          : failedBy(refusals.engineUnfinished);
        return;
      case 'finish':
      case 'content':
        this.#passage.commit();
        break;
      case 'nothing':
        break;
    }
    if (chunk === null) this.#passage.pass(bytes, from, to);
    else this.#onChunk(chunk, meaning.is, bytes, from, to);
  }

  /** It is but a piece, and an answer goes out already. */
  #isPiece(bytes: Buffer, from: number, to: number): boolean {
    if (this.#listener.reads_all || !this.#delivery.isCommitted()) return false;
    return this.#repeat.textAt(bytes, from, to) !== null || !mayMatter(bytes, from, to);
  }

  #onChunk(
    chunk: Fields,
    is: 'content' | 'finish' | 'nothing',
    ...[bytes, from, to]: Parameters<OnFrame>
  ): void {
    this.#ends.see(chunk);
    if (is === 'content') this.#repeat.learn(bytes, from, to, chunk);
    const instead = this.#listener.said(chunk, is !== 'nothing');
    // The last event of a response is its end as well.
    if (is === 'finish' && this.#api === 'responses') {
      const last = instead instanceof Buffer ? instead : bytes.subarray(from, to);
      this.#ending = { is: 'whole', last };
    } else if (instead === 'as it is') this.#passage.pass(bytes, from, to);
    else if (instead !== null) this.#passage.pass(instead, 0, instead.length);
  }
}

/** Frames on their way to the client: held until there is content, neighbours in one write. */
class Passage {
  readonly #delivery: Delivery;
  #held: Buffer[] = [];
  #held_bytes = 0;
  #is_full = false;
  #run: Buffer | null = null;
  #run_from = 0;
  #run_to = 0;

  constructor(delivery: Delivery) {
    this.#delivery = delivery;
  }

  flush(): void {
    const run = this.#run;
    if (run === null) return;
    const is_all = this.#run_from === 0 && this.#run_to === run.length;
    const bytes = is_all ? run : run.subarray(this.#run_from, this.#run_to);
    this.#run = null;
    if (this.#delivery.isCommitted()) {
      this.#write(bytes);
      return;
    }
    this.#held.push(bytes);
    this.#held_bytes += bytes.length;
    if (this.#held_bytes > limits.gateway_held_bytes) this.commit();
  }

  commit(): void {
    if (this.#delivery.isCommitted()) return;
    this.flush();
    // Flushing may have been what was too much.
    if (this.#delivery.isCommitted()) return;
    this.#delivery.commit();
    for (const bytes of this.#held.splice(0)) this.#write(bytes);
  }

  pass(bytes: Buffer, from: number, to: number): void {
    if (this.#run === bytes && this.#run_to === from) {
      this.#run_to = to;
      return;
    }
    this.flush();
    this.#run = bytes;
    this.#run_from = from;
    this.#run_to = to;
  }

  /** Since it was last asked. */
  isFull(): boolean {
    const was_full = this.#is_full;
    this.#is_full = false;
    return was_full;
  }

  #write(bytes: Buffer): void {
    if (!this.#delivery.write(bytes)) this.#is_full = true;
  }
}
