/**
 * Carries a program's streams over one WebSocket.
 *
 * Invariants: at most a window of bytes lies between a program and a client that takes nothing, in
 * each direction; an end is said after all output that it ends; a client that says what it may
 * not is cut off with its fault named.
 */
import type { Readable } from 'node:stream';
import { type ExecAskMessage, type ExecTellMessage, execAskSchema } from '../../contract/exec.ts';
import {
  type Channel,
  exec_ack_bytes,
  exec_window_bytes,
  frameOf,
  readFrame,
} from '../../contract/exec-frame.ts';
import { createCredit } from '../../lib/credit.ts';
import type { ExecSession } from '../../lib/session.ts';

/** The part of a WebSocket that is used. */
export type Line = {
  sendBytes(frame: Buffer): Promise<void>;
  tell(message: ExecTellMessage): void;
  /** Cuts the client off, with the reason. */
  fail(problem: string): void;
};

export type Pump = {
  /** A text frame after `start`. */
  message(said: ExecAskMessage): void;
  /** A binary frame. */
  bytes(frame: Buffer): void;
  /** Resolves when all output was sent. */
  sent: Promise<void>;
  close(): void;
};

const frame_bytes = 32 * 1024;

/** Reads a text frame; null where it is none of the protocol's. */
export function readMessage(text: string): ExecAskMessage | null {
  try {
    return execAskSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

export function createPump(session: ExecSession, line: Line): Pump {
  const credit = createCredit(exec_window_bytes);
  /** Of stdin: come in, and not taken by the program yet. */
  let waiting = 0;
  let taken = 0;

  async function carry(stream: Readable, channel: Channel): Promise<void> {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      for (let from = 0; from < chunk.length; from += frame_bytes) {
        const piece = chunk.subarray(from, from + frame_bytes);
        if (!(await credit.take(piece.length))) return;
        await line.sendBytes(frameOf(channel, piece));
      }
    }
  }

  /** Told in larger steps: each costs a frame. */
  function acknowledge(bytes: number): void {
    waiting -= bytes;
    taken += bytes;
    if (taken < exec_ack_bytes && waiting > 0) return;
    line.tell({ type: 'ack', bytes: taken });
    taken = 0;
  }

  const { stdin, stdout, stderr } = session;
  const carried = [carry(stdout, 'stdout')];
  if (stderr !== null) carried.push(carry(stderr, 'stderr'));
  return {
    sent: Promise.allSettled(carried).then(() => {}),
    message(said) {
      if (said.type === 'start') return line.fail('it has started already');
      if (said.type === 'resize') return session.resize(said.columns, said.rows);
      if (said.type === 'close-stdin') return void stdin.end();
      if (!credit.give(said.bytes)) line.fail('more was acknowledged than was sent');
    },
    bytes(frame) {
      const found = readFrame(frame);
      if (found?.channel !== 'stdin') return line.fail('only stdin can be sent');
      const { bytes } = found;
      if (bytes.length === 0) return;
      waiting += bytes.length;
      if (waiting + taken > exec_window_bytes) return line.fail('more was sent than its window');
      // Who no longer reads takes everything.
      if (stdin.destroyed || stdin.writableEnded) return acknowledge(bytes.length);
      stdin.write(bytes, () => acknowledge(bytes.length));
    },
    close: () => credit.close(),
  };
}
