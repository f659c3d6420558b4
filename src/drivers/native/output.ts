/**
 * What a run prints: read in pieces, and kept from filling the disk.
 *
 * Invariants: pieces are cut between characters; the file is only ever shortened in place, because
 * the run keeps it open for appending.
 */
import {
  appendFileSync,
  closeSync,
  fstatSync,
  openSync,
  readSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { formatBytes } from '../../core/format.ts';
import { isErrno } from '../../lib/files.ts';
import type { LogChunk } from '../driver.ts';
import { cutPiece, pieceAt } from '../output.ts';

export const output_limit_bytes = 64 * 1024 ** 2;
const kept_bytes = 64 * 1024;

/** Reads at most `limit` bytes from `offset`; negative offsets count from the end. */
export function readOutput(
  path: string,
  offset: number,
  limit: number,
  has_ended: boolean,
): LogChunk {
  const file = openOutput(path);
  if (file === null) return { text: '', next_offset: 0, end: has_ended };
  try {
    const size = fstatSync(file).size;
    const { from, to } = pieceAt(size, offset, limit);
    const buffer = Buffer.alloc(to - from);
    const bytes = buffer.subarray(0, readSync(file, buffer, 0, buffer.length, from));
    return cutPiece(bytes, { from, size, is_tail: offset < 0, has_ended });
  } finally {
    closeSync(file);
  }
}

/** Shortens output over the limit to its last part, after a line that says so. */
export function boundOutput(path: string, limit_bytes = output_limit_bytes): boolean {
  const size = sizeOf(path);
  if (size <= limit_bytes) return false;
  const tail = readOutput(path, -Math.min(kept_bytes, limit_bytes), kept_bytes, false).text;
  truncateSync(path, 0);
  const dropped = size - Buffer.byteLength(tail);
  appendFileSync(path, `[einsora: ${formatBytes(dropped)} of older output dropped]\n${tail}`);
  return true;
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return 0;
    throw error;
  }
}

function openOutput(path: string): number | null {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return null;
    throw error;
  }
}
