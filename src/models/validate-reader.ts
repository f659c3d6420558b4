/**
 * Walks a file from its start in bounded chunks.
 *
 * Invariants: holds one chunk of memory, whatever the file says; never reads past what was asked
 * for by more than a chunk; refuses with `truncated` instead of reading past the end. Numbers above
 * 2^53 - 1 read as Infinity, so that every "at most" check refuses them without BigInt.
 */
import { isUtf8 } from 'node:buffer';
import type { FileHandle } from 'node:fs/promises';
import { must, Refusal } from './validate-refusal.ts';

/** One read from the file, and the memory that a walk holds. */
export const chunk_bytes = 1 << 20;

/** Called for each string of an array with the bytes from `start` to `end` of `bytes`. */
export type StringVisitor = (bytes: Uint8Array, start: number, end: number) => void;

export class ModelReader {
  readonly file_bytes: number;
  readonly #file: FileHandle;
  readonly #bytes = Buffer.allocUnsafeSlow(chunk_bytes);
  readonly #view = new DataView(this.#bytes.buffer);
  /** Where in the file the chunk's first byte lies. */
  #base = 0;
  #at = 0;
  #filled = 0;

  constructor(file: FileHandle, file_bytes: number) {
    this.#file = file;
    this.file_bytes = file_bytes;
  }

  /** Bytes walked so far. */
  get offset(): number {
    return this.#base + this.#at;
  }

  get bytes_left(): number {
    return this.file_bytes - this.offset;
  }

  /** Makes `count` bytes (at most a chunk) available to the calls below. */
  async need(count: number): Promise<void> {
    if (this.#filled - this.#at >= count) return;
    must(count <= this.bytes_left, 'truncated');
    this.#bytes.copyWithin(0, this.#at, this.#filled);
    this.#base += this.#at;
    this.#filled -= this.#at;
    this.#at = 0;
    while (this.#filled < count) {
      const room = Math.min(this.#bytes.length, this.file_bytes - this.#base) - this.#filled;
      const position = this.#base + this.#filled;
      const { bytesRead } = await this.#file.read(this.#bytes, this.#filled, room, position);
      must(bytesRead > 0, 'changed');
      this.#filled += bytesRead;
    }
  }

  /** Passes over `count` bytes without reading those that are not in the chunk. */
  skip(count: number): void {
    must(count <= this.bytes_left, 'truncated');
    this.#at += count;
    if (this.#at <= this.#filled) return;
    this.#base += this.#at;
    this.#at = 0;
    this.#filled = 0;
  }

  u8(): number {
    this.#at += 1;
    return this.#view.getUint8(this.#at - 1);
  }

  u16(): number {
    this.#at += 2;
    return this.#view.getUint16(this.#at - 2, true);
  }

  u32(): number {
    this.#at += 4;
    return this.#view.getUint32(this.#at - 4, true);
  }

  f32(): number {
    this.#at += 4;
    return this.#view.getFloat32(this.#at - 4, true);
  }

  f64(): number {
    this.#at += 8;
    return this.#view.getFloat64(this.#at - 8, true);
  }

  u64(): number {
    this.#at += 8;
    return this.#u64At(this.#at - 8);
  }

  /** A signed number; beyond 2^53 in either direction it is infinite. */
  i64(): number {
    const low = this.u32();
    const high = this.u32() | 0;
    const value = high * 2 ** 32 + low;
    return Number.isSafeInteger(value) ? value : Math.sign(value) * Number.POSITIVE_INFINITY;
  }

  /** `count` bytes as they are; valid until the next `need`. */
  raw(count: number): Uint8Array {
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  /** What of the next `count` bytes is in the chunk, without walking on; valid as `raw` is. */
  buffered(count: number): Buffer {
    return this.#bytes.subarray(this.#at, Math.min(this.#filled, this.#at + count));
  }

  /** `count` bytes from anywhere, beside the walk; fewer at the end of the file. */
  async readAt(position: number, count: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(Math.max(0, Math.min(count, this.file_bytes - position)));
    for (let done = 0; done < bytes.length; ) {
      const left = bytes.length - done;
      const { bytesRead } = await this.#file.read(bytes, done, left, position + done);
      must(bytesRead > 0, 'changed');
      done += bytesRead;
    }
    return bytes;
  }

  /** `count` bytes as text, which must be UTF-8. */
  text(count: number, what: string): string {
    const start = this.#at;
    must(isUtf8(this.#bytes.subarray(start, start + count)), 'utf8', () => `It is ${what}.`);
    this.#at += count;
    return this.#bytes.toString('utf8', start, this.#at);
  }

  /**
   * Walks `count` length-prefixed strings, each at most `limit` bytes of UTF-8, as many at once as
   * a chunk holds. `too_long` makes the refusal of a longer one.
   */
  async strings(count: number, limit: number, too_long: Refusal, visit: StringVisitor) {
    let left = count;
    while (left > 0) {
      left -= this.#stringsInChunk(left, limit, too_long, visit);
      if (left === 0) return;
      await this.need(8);
      const length = this.#u64At(this.#at);
      if (length > limit) throw too_long;
      await this.need(8 + length);
    }
  }

  /**
   * Walks the complete strings of this chunk; returns how many there were. A run of short strings
   * is checked at once with its length prefixes: these are bytes below 128 and so UTF-8 themselves,
   * and no character can reach across one.
   */
  #stringsInChunk(count: number, limit: number, too_long: Refusal, visit: StringVisitor): number {
    let done = 0;
    let run = this.#at;
    while (done < count && this.#filled - this.#at >= 8) {
      const length = this.#u64At(this.#at);
      if (length > limit) throw too_long;
      const start = this.#at + 8;
      const end = start + length;
      if (end > this.#filled) break;
      if (length > 127) {
        this.#mustBeText(run, this.#at);
        this.#mustBeText(start, end);
        run = end;
      }
      visit(this.#bytes, start, end);
      this.#at = end;
      done += 1;
    }
    this.#mustBeText(run, this.#at);
    return done;
  }

  #mustBeText(start: number, end: number): void {
    if (isUtf8(this.#bytes.subarray(start, end))) return;
    throw new Refusal(
      'utf8',
      `It lies between bytes ${this.#base + start} and ${this.#base + end}.`,
    );
  }

  #u64At(at: number): number {
    const high = this.#view.getUint32(at + 4, true);
    if (high >= 2 ** 21) return Number.POSITIVE_INFINITY;
    return high * 2 ** 32 + this.#view.getUint32(at, true);
  }
}
