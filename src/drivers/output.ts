/**
 * Pieces of what a run printed, cut for reading.
 *
 * Invariants: a piece never ends or begins inside a UTF-8 character; reading on from `next_offset`
 * always gets on, and gives each byte once.
 */
import type { LogChunk } from './driver.ts';

const longest_character = 4;

/** Which bytes a piece needs: `offset` may count from the end, or be from before a shortening. */
export function pieceAt(size: number, offset: number, limit: number): { from: number; to: number } {
  const from = offset < 0 ? Math.max(0, size + offset) : offset > size ? 0 : offset;
  return { from, to: Math.min(size, from + Math.max(longest_character, limit)) };
}

/** The piece that `bytes`, read from `from` of `size` bytes, make. */
export function cutPiece(
  bytes: Buffer,
  piece: { from: number; size: number; is_tail: boolean; has_ended: boolean },
): LogChunk {
  const { from, size, is_tail, has_ended } = piece;
  const is_last = from + bytes.length >= size;
  const head = is_tail && from > 0 ? brokenHead(bytes) : 0;
  const tail = is_last && has_ended ? 0 : brokenTail(bytes);
  const end = Math.max(head, bytes.length - tail);
  const next_offset = from + end;
  return {
    text: bytes.toString('utf8', head, end),
    next_offset,
    end: has_ended && next_offset >= size,
  };
}

/** Bytes at the start that continue a character which began before. */
function brokenHead(bytes: Buffer): number {
  let count = 0;
  while (count < longest_character - 1 && isContinuation(bytes[count])) count += 1;
  return count;
}

/** Bytes at the end that begin a character which goes on behind. */
function brokenTail(bytes: Buffer): number {
  for (let back = 1; back < longest_character && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (isContinuation(byte)) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
