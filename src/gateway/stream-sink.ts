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
import { createFrames } from './frames.ts';
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
  const frames = createFrames(limits.gateway_frame_bytes, onFrame);
  const repeat = createRepeat();
  const passage = createPassage(delivery);
  const ends = createChoiceEnds();
  let pieces = 0;
  let ending: Ending | null = null;

  /** It is but a piece, and an answer goes out already. */
  function isPiece(bytes: Buffer, from: number, to: number): boolean {
    if (listener.reads_all || !delivery.isCommitted()) return false;
    return repeat.textAt(bytes, from, to) !== null || !mayMatter(bytes, from, to);
  }

  function onFrame(bytes: Buffer, from: number, to: number): void {
    if (ending !== null) return;
    if (isPiece(bytes, from, to)) {
      pieces += 1;
      passage.pass(bytes, from, to);
      return;
    }
    const frame = readFrame(bytes, from, to);
    // Client libraries would hand it on as a chunk.
    if (frame.data === nothing_said) return;
    const { meaning, chunk } = readEvent(api, frame);
    switch (meaning.is) {
      case 'failed':
        ending = failedBy(meaning.refusal);
        return;
      case 'done':
        ending = ends.areAll()
          ? { is: 'whole', last: bytes.subarray(from, to) }
          : failedBy(refusals.engineUnfinished);
        return;
      case 'finish':
      case 'content':
        passage.commit();
        break;
      case 'nothing':
        break;
    }
    if (chunk !== null) ends.see(chunk);
    if (chunk !== null && meaning.is === 'content') repeat.learn(bytes, from, to, chunk);
    const has_content = meaning.is === 'content' || meaning.is === 'finish';
    const instead = chunk === null ? 'as it is' : listener.said(chunk, has_content);
    // The last event of a response is its end as well.
    if (meaning.is === 'finish' && api === 'responses') {
      const last = instead instanceof Buffer ? instead : bytes.subarray(from, to);
      ending = { is: 'whole', last };
    } else if (instead === 'as it is') passage.pass(bytes, from, to);
    else if (instead !== null) passage.pass(instead, 0, instead.length);
  }

  return {
    take(chunk) {
      const fits = frames.push(chunk);
      passage.flush();
      if (pieces > 0) listener.pieces(pieces);
      pieces = 0;
      if (ending !== null) return ending;
      if (!fits) return failedBy(refusals.engineTooMuch);
      return passage.isFull() ? 'wait' : 'more';
    },
    ended: () => ending ?? failedBy(refusals.engineCut),
  };
}

/** Frames on their way to the client: held until there is content, neighbours in one write. */
function createPassage(delivery: Delivery) {
  const held: Buffer[] = [];
  let held_bytes = 0;
  let is_full = false;
  let run: Buffer | null = null;
  let run_from = 0;
  let run_to = 0;

  function flush(): void {
    if (run === null) return;
    const is_all = run_from === 0 && run_to === run.length;
    const bytes = is_all ? run : run.subarray(run_from, run_to);
    run = null;
    if (delivery.isCommitted()) {
      write(bytes);
      return;
    }
    held.push(bytes);
    held_bytes += bytes.length;
    if (held_bytes > limits.gateway_held_bytes) commit();
  }

  function write(bytes: Buffer): void {
    if (!delivery.write(bytes)) is_full = true;
  }

  function commit(): void {
    if (delivery.isCommitted()) return;
    flush();
    // Flushing may have been what was too much.
    if (delivery.isCommitted()) return;
    delivery.commit();
    for (const bytes of held.splice(0)) write(bytes);
  }

  return {
    flush,
    commit,
    pass(bytes: Buffer, from: number, to: number): void {
      if (run === bytes && run_to === from) {
        run_to = to;
        return;
      }
      flush();
      run = bytes;
      run_from = from;
      run_to = to;
    },
    /** Since it was last asked. */
    isFull(): boolean {
      const was_full = is_full;
      is_full = false;
      return was_full;
    },
  };
}
