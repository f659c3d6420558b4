/**
 * One channel of an SSH connection: a stream in, two streams out, each within its window.
 *
 * Invariants: what the client sent and nobody read yet is at most the window that it was given;
 * what we send is at most the window that it gave, one packet at a time in turn with the other
 * channels; a write resolves to false once nothing can be sent any more, and never rejects; output
 * is followed by how it ended, then by its close, each once.
 */
import { Readable } from 'node:stream';
import type { Sender } from './transport.ts';

/** Bytes of a channel that a client may send ahead of who reads them. */
export const window_bytes = 1024 * 1024;
export const packet_bytes = 32 * 1024;
const adjust_bytes = window_bytes / 2;
const small_bytes = 4096;
/** RFC 4254, 5.2: windows end there, and that is how standard error is told apart. */
const largest_window = 0xffffffff;
const stderr_type = 1;

export type Ending = { code: number | null; signal: string | null };
export type Output = 'stdout' | 'stderr';

/** A channel, as what serves it sees it. */
export type Channel = {
  /** What the client sends; ends where it says so, or with the channel. */
  readonly input: Readable;
  readonly is_open: boolean;
  /** Resolves when it is over, whoever closed it. */
  readonly closed: Promise<void>;
  /** Resolves when it was sent; to false where it cannot be. */
  write(data: Uint8Array, to?: Output): Promise<boolean>;
  /** Nothing more comes from here; the client may go on sending. */
  endOutput(): void;
  /** Says how the program ended where there was one, and closes. */
  finish(ending: Ending | null): void;
};

/** Of the connection, for its channels. */
export type Line = {
  send: Sender;
  isCongested(): boolean;
  /** Resolves when there may be room again, or there is no line any more. */
  changed(): Promise<void>;
  /** Both sides have closed it: its number is free. */
  freed(id: number): void;
};

export class SshChannel implements Channel {
  readonly input: Readable;
  readonly #line: Line;
  readonly #id: number;
  readonly #remote: number;
  readonly #piece_bytes: number;
  readonly #over = Promise.withResolvers<void>();
  #out_window: number;
  #in_window = window_bytes;
  #output: 'open' | 'ended' | 'closed' = 'open';
  #is_closed_there = false;
  /** What came and is not wanted yet. */
  readonly #waiting: Buffer[] = [];
  #waiting_bytes = 0;
  #is_wanted = false;
  #is_input_over = false;
  #is_end_told = false;
  #widened = Promise.withResolvers<void>();

  constructor(
    line: Line,
    id: number,
    peer: { sender: number; window: number; packetSize: number },
  ) {
    this.#line = line;
    this.#id = id;
    this.#remote = peer.sender;
    this.#out_window = peer.window;
    this.#piece_bytes = Math.min(peer.packetSize, packet_bytes);
    this.input = new Readable({
      highWaterMark: packet_bytes,
      read: () => {
        this.#is_wanted = true;
        this.#feed();
      },
    });
    this.input.on('error', () => {});
  }

  get is_open(): boolean {
    return this.#output !== 'closed';
  }

  get closed(): Promise<void> {
    return this.#over.promise;
  }

  async write(data: Uint8Array, to: Output = 'stdout'): Promise<boolean> {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
    let sent = 0;
    while (sent < bytes.length && this.#output === 'open') {
      if (this.#out_window === 0) {
        await this.#widened.promise;
        continue;
      }
      if (this.#line.isCongested()) {
        await Promise.race([this.#line.changed(), this.closed]);
        // Each that waited sends one packet at least, so that none starves.
        if (this.#output !== 'open' || this.#out_window === 0) continue;
      }
      sent += this.#sendPiece(bytes.subarray(sent), to);
      await null; // the others' turn
    }
    return this.#output === 'open';
  }

  #sendPiece(bytes: Buffer, to: Output): number {
    const piece = bytes.subarray(0, Math.min(this.#out_window, this.#piece_bytes));
    const { send } = this.#line;
    this.#out_window -= piece.length;
    if (to === 'stdout') send.channelData(this.#remote, piece);
    else send.channelExtData(this.#remote, piece, stderr_type);
    return piece.length;
  }

  /** The last that is said on it: past what still waits, where there is room for it. */
  sayLast(text: string): void {
    const bytes = Buffer.from(text);
    if (this.#output !== 'open' || bytes.length > this.#out_window) return;
    this.#sendPiece(bytes, 'stderr');
  }

  endOutput(): void {
    if (this.#output !== 'open') return;
    this.#output = 'ended';
    this.#line.send.channelEOF(this.#remote);
  }

  finish(ending: Ending | null): void {
    if (this.#output === 'closed') return;
    if (ending !== null) sayEnding(this.#line.send, this.#remote, ending);
    this.endOutput();
    this.#output = 'closed';
    this.#line.send.channelClose(this.#remote);
    this.#settle();
  }

  /** The answer to a request about this channel. */
  answer(is_granted: boolean): void {
    if (this.#output === 'closed') return;
    if (is_granted) this.#line.send.channelSuccess(this.#remote);
    else this.#line.send.channelFailure(this.#remote);
  }

  /** From the client. False: more than it may send. */
  received(data: Buffer): boolean {
    if (data.length > this.#in_window) return false;
    this.#in_window -= data.length;
    if (this.#is_input_over || this.input.destroyed) return true;
    this.#keep(data);
    this.#feed();
    return true;
  }

  /** From the client: so much more may be sent to it. */
  granted(bytes: number): void {
    this.#out_window = Math.min(this.#out_window + bytes, largest_window);
    this.#wake();
  }

  /** From the client: it sends nothing more. */
  ended(): void {
    if (this.#is_input_over) return;
    this.#is_input_over = true;
    this.#feed();
  }

  closedByClient(): void {
    this.#is_closed_there = true;
    if (this.#output === 'closed') this.#line.freed(this.#id);
    else this.finish(null);
  }

  /** The connection is gone. */
  lost(): void {
    this.#is_closed_there = true;
    if (this.#output === 'closed') return;
    this.#output = 'closed';
    this.#settle();
  }

  /** Small pieces in one: a million of one byte each must not cost a hundred times as much. */
  #keep(data: Buffer): void {
    const last = this.#waiting.at(-1);
    this.#waiting_bytes += data.length;
    if (last === undefined || last.length + data.length > small_bytes) this.#waiting.push(data);
    else this.#waiting[this.#waiting.length - 1] = Buffer.concat([last, data]);
  }

  /** Hands on what is wanted; by as much the client may send again. */
  #feed(): void {
    const { input } = this;
    while (this.#is_wanted && !input.destroyed) {
      const data = this.#waiting.shift();
      if (data === undefined) break;
      this.#waiting_bytes -= data.length;
      this.#is_wanted = input.push(data);
    }
    if (this.#is_input_over) {
      const is_empty = this.#waiting.length === 0 && !input.destroyed;
      if (is_empty && !this.#is_end_told) input.push(null);
      this.#is_end_told ||= is_empty;
      return;
    }
    const room = window_bytes - this.#in_window - this.#waiting_bytes;
    if (room < adjust_bytes || this.#output === 'closed') return;
    this.#in_window += room;
    this.#line.send.channelWindowAdjust(this.#remote, room);
  }

  #wake(): void {
    this.#widened.resolve();
    this.#widened = Promise.withResolvers<void>();
  }

  #settle(): void {
    this.#wake();
    this.ended();
    this.#over.resolve();
    if (this.#is_closed_there) this.#line.freed(this.#id);
  }
}

/** Names that RFC 4254 knows; others are told by number, as shells do. */
const told_by_name = /^SIG(?:ABRT|ALRM|FPE|HUP|ILL|INT|KILL|PIPE|QUIT|SEGV|TERM|USR1|USR2)$/;

function sayEnding(send: Sender, remote: number, { code, signal }: Ending): void {
  if (signal !== null && told_by_name.test(signal)) send.exitSignal(remote, signal, false, '');
  else send.exitStatus(remote, code ?? 255);
}

/** Sends all that a stream gives; ends the stream where the channel takes no more. */
export async function pump(source: Readable, channel: Channel, to?: Output): Promise<void> {
  try {
    for await (const chunk of source) {
      if (!(await channel.write(chunk as Buffer, to))) break;
    }
  } catch {
    // It broke off: what came before was sent, and how it ended is said by whoever knows.
  } finally {
    source.destroy();
  }
}
