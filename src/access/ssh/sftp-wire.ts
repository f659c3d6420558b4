/**
 * SFTP, version 3, as bytes: draft-ietf-secsh-filexfer-02, which is what OpenSSH speaks.
 *
 * Invariants: reading past what is there throws Malformed, and nothing else is thrown; numbers of
 * 64 bits beyond what a double holds are Malformed too.
 */
import type { FileFacts } from '../../lib/session.ts';

export const ask = {
  init: 1,
  open: 3,
  close: 4,
  read: 5,
  write: 6,
  lstat: 7,
  fstat: 8,
  setstat: 9,
  fsetstat: 10,
  opendir: 11,
  readdir: 12,
  remove: 13,
  mkdir: 14,
  rmdir: 15,
  realpath: 16,
  stat: 17,
  rename: 18,
  extended: 200,
} as const;

const say = { version: 2, status: 101, handle: 102, data: 103, name: 104, attrs: 105, reply: 201 };

export const status = { ok: 0, eof: 1, not_found: 2, refused: 3, failure: 4, unsupported: 8 };

export const open_flags = { read: 1, write: 2, append: 4, create: 8, truncate: 16, exclusive: 32 };

const has = { size: 1, owner: 2, mode: 4, times: 8, extended: 0x80000000 };

/** Data of one read or write, and of a whole packet. */
export const data_bytes = 256 * 1024;
export const message_bytes = data_bytes + 1024;
export const handles_at_most = 64;

export class Malformed extends Error {}

export type Attributes = { size: number | null; mode: number | null };

/** The fields of one request, in order. */
export class Fields {
  readonly #bytes: Buffer;
  #at = 0;
  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }
  #take(count: number): Buffer {
    const end = this.#at + count;
    if (end > this.#bytes.length) throw new Malformed('cut off');
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
  byte(): number {
    return this.#take(1).readUInt8();
  }
  number(): number {
    return this.#take(4).readUInt32BE();
  }
  long(): number {
    const value = this.#take(8).readBigUInt64BE();
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Malformed('a number beyond all files');
    return Number(value);
  }
  bytes(): Buffer {
    return this.#take(this.number());
  }
  text(): string {
    return this.bytes().toString('utf8');
  }
  attributes(): Attributes {
    const flags = this.number();
    const size = flags & has.size ? this.long() : null;
    if (flags & has.owner) this.#take(8);
    const mode = flags & has.mode ? this.number() : null;
    if (flags & has.times) this.#take(8);
    return { size, mode };
  }
}

/** Splits what comes into whole requests. */
export async function* splitRequests(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of input) {
    held.push(chunk);
    bytes += chunk.length;
    if (bytes < 4 || bytes < wantedBytes(held)) continue;
    let whole = Buffer.concat(held);
    for (;;) {
      const length = whole.length < 4 ? Number.POSITIVE_INFINITY : whole.readUInt32BE();
      if (whole.length < 4 + length) break;
      yield whole.subarray(4, 4 + length);
      whole = whole.subarray(4 + length);
    }
    held = [whole];
    bytes = whole.length;
    if (bytes >= 4) wantedBytes(held);
  }
}

function wantedBytes(held: Buffer[]): number {
  const [first = Buffer.alloc(0)] = held;
  const head = first.length >= 4 ? first : Buffer.concat(held).subarray(0, 4);
  const length = head.readUInt32BE();
  if (length > message_bytes || length === 0) throw new Malformed('a request of that length');
  return 4 + length;
}

export function versionMessage(): Buffer {
  const extensions = ['posix-rename@openssh.com', '1', 'limits@openssh.com', '1'];
  return message(say.version, [number(3), ...extensions.map(text)]);
}

export function statusMessage(id: number, code: number, words: string): Buffer {
  return message(say.status, [number(id), number(code), text(words), text('')]);
}

export function handleMessage(id: number, handle: string): Buffer {
  return message(say.handle, [number(id), text(handle)]);
}

export function dataMessage(id: number, data: Buffer): Buffer {
  return message(say.data, [number(id), number(data.length), data]);
}

export function attributesMessage(id: number, facts: FileFacts): Buffer {
  return message(say.attrs, [number(id), attributes(facts)]);
}

/** A name alone, as an answer to `realpath`. */
export function pathMessage(id: number, path: string): Buffer {
  return message(say.name, [number(id), number(1), text(path), text(path), number(0)]);
}

export function namesMessage(id: number, entries: FileFacts[]): Buffer {
  const rows = entries.flatMap((one) => [text(one.name), text(longName(one)), attributes(one)]);
  return message(say.name, [number(id), number(entries.length), ...rows]);
}

export function limitsMessage(id: number): Buffer {
  const values = [message_bytes, data_bytes, data_bytes, handles_at_most];
  return message(say.reply, [number(id), ...values.map(long)]);
}

function message(type: number, parts: Buffer[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 1);
  return Buffer.concat([number(length), Buffer.of(type), ...parts]);
}

function attributes(facts: FileFacts): Buffer {
  const seconds = Math.max(0, Math.min(0xffffffff, Math.floor(facts.modified_at / 1000)));
  return Buffer.concat([
    number(has.size | has.mode | has.times),
    long(facts.size),
    number(type_bits[facts.kind] | (facts.mode & 0o7777)),
    number(seconds),
    number(seconds),
  ]);
}

const type_bits = { file: 0o100000, folder: 0o040000, link: 0o120000, other: 0o010000 } as const;
const type_letters = { file: '-', folder: 'd', link: 'l', other: 'p' } as const;
const letters = ['---', '--x', '-w-', '-wx', 'r--', 'r-x', 'rw-', 'rwx'] as const;

/** As `ls -l` shows it, which clients print as it is. */
function longName({ kind, mode, size, modified_at, name }: FileFacts): string {
  const rights = [6, 3, 0].map((shift) => letters[(mode >> shift) & 7]).join('');
  const day = new Date(modified_at).toUTCString().slice(5, 16);
  return `${type_letters[kind]}${rights} 1 - - ${String(size).padStart(10)} ${day} ${name}`;
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value >>> 0);
  return bytes;
}

function long(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(Math.max(0, Math.floor(value))));
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([number(bytes.length), bytes]);
}
