/**
 * The little of tar that the engine's archives need: one entry written, one entry read.
 *
 * Invariants: a header is believed only if its checksum holds; names and sizes too long for the old
 * header come from the extended one before it, as the engine writes them.
 */
import type { Readable } from 'node:stream';
import { EngineDown } from './engine-error.ts';

const block = 512;
const extended_limit_bytes = 1024 * 1024;

export type TarEntry = {
  name: string;
  kind: 'file' | 'folder' | 'link' | 'other';
  size: number;
  mode: number;
  uid: number;
  gid: number;
  link: string;
};

export type OwnedFolder = { name: string; uid: number; gid: number; mode: number };

/** An archive that holds one folder. */
export function folderArchive({ name, uid, gid, mode }: OwnedFolder): Buffer {
  const header = Buffer.alloc(block);
  header.write(`${name}/`, 0, 100, 'utf8');
  writeNumber(header, 100, 8, mode);
  writeNumber(header, 108, 8, uid);
  writeNumber(header, 116, 8, gid);
  writeNumber(header, 124, 12, 0);
  writeNumber(header, 136, 12, 0);
  header.write('5', 156);
  header.write('ustar\0' + '00', 257, 'latin1');
  header.fill(' ', 148, 156);
  header.write(`${checksum(header).toString(8).padStart(6, '0')}\0 `, 148, 8, 'latin1');
  return Buffer.concat([header, Buffer.alloc(2 * block)]);
}

/** The first entry of an archive. The stream then stands where its content begins. */
export async function readEntry(archive: Readable): Promise<TarEntry> {
  const extended: Record<string, string> = {};
  for (;;) {
    const header = await readExactly(archive, block);
    const size = readNumber(header, 124, 12);
    if (checksum(header) !== readNumber(header, 148, 8)) throw garbled();
    const type = String.fromCharCode(header[156] ?? 0);
    if (type !== 'x' && type !== 'g') return entryOf(header, type, extended);
    if (size > extended_limit_bytes) throw garbled();
    const padded = Math.ceil(size / block) * block;
    const body = (await readExactly(archive, padded)).subarray(0, size);
    if (type === 'x') Object.assign(extended, readExtended(body));
  }
}

function entryOf(header: Buffer, type: string, extended: Record<string, string>): TarEntry {
  const kinds: Record<string, TarEntry['kind']> = { '0': 'file', '\0': 'file', '5': 'folder' };
  const number = (name: string, at: number, length: number) =>
    extended[name] === undefined ? readNumber(header, at, length) : Number(extended[name]);
  return {
    name: extended.path ?? textAt(header, 0, 100),
    kind: type === '2' ? 'link' : (kinds[type] ?? 'other'),
    size: number('size', 124, 12),
    mode: readNumber(header, 100, 8) & 0o7777,
    uid: number('uid', 108, 8),
    gid: number('gid', 116, 8),
    link: extended.linkpath ?? textAt(header, 157, 100),
  };
}

/** Records of "length key=value\n". */
function readExtended(body: Buffer): Record<string, string> {
  const found: Record<string, string> = {};
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(0x20, at);
    const length = Number(body.toString('latin1', at, space));
    if (space < 0 || !(length > 0)) throw garbled();
    const record = body.toString('utf8', space + 1, at + length - 1);
    const equals = record.indexOf('=');
    found[record.slice(0, equals)] = record.slice(equals + 1);
    at += length;
  }
  return found;
}

async function readExactly(archive: Readable, bytes: number): Promise<Buffer> {
  for (;;) {
    const chunk: Buffer | null = archive.read(bytes);
    if (chunk !== null) {
      if (chunk.length < bytes) throw garbled();
      return chunk;
    }
    if (archive.readableEnded || archive.destroyed) throw garbled();
    await untilReadable(archive);
  }
}

function untilReadable(archive: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    const events = ['readable', 'end', 'close', 'error'] as const;
    const settle = (error?: Error) => {
      for (const event of events) archive.off(event, settle);
      if (error instanceof Error) reject(error);
      else resolve();
    };
    for (const event of events) archive.on(event, settle);
  });
}

/** Octal digits, or for what does not fit, a number in binary with the highest bit set. */
function writeNumber(header: Buffer, at: number, length: number, value: number): void {
  const digits = value.toString(8);
  if (digits.length < length) {
    header.write(`${digits.padStart(length - 1, '0')}\0`, at, length, 'latin1');
    return;
  }
  header.writeUIntBE(value, at + length - 6, 6);
  header[at] = 0x80;
}

function readNumber(header: Buffer, at: number, length: number): number {
  if (((header[at] ?? 0) & 0x80) !== 0) return header.readUIntBE(at + length - 6, 6);
  return Number.parseInt(textAt(header, at, length).trim() || '0', 8);
}

function checksum(header: Buffer): number {
  let sum = 0;
  for (const [index, byte] of header.entries()) {
    sum += index >= 148 && index < 156 ? 0x20 : byte;
  }
  return sum;
}

function textAt(header: Buffer, at: number, length: number): string {
  const field = header.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end < 0 ? length : end);
}

function garbled(): EngineDown {
  return new EngineDown('garbled', 'the engine sent what is no archive');
}
