/**
 * The output of containers, brought from the engine into a file of each run's folder when somebody
 * wants to read it, and before the container goes (ADR-0043).
 *
 * Invariants: an offset into the file means the same byte whoever asks, over restarts of this
 * program and of the engine; what is new is appended, and what the engine had dropped in between is
 * marked. A piece that was written without its cursor is written again, not twice.
 */
import { appendFileSync, renameSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { readIfThere } from '../../lib/files.ts';
import { createKeyedMutex } from '../mutex.ts';
import { boundOutput } from '../native/output.ts';
import type { Engine } from './engine.ts';
import { createFrameReader } from './frames.ts';
import {
  advance,
  countSeen,
  entryOf,
  type LogEntry,
  type LogMark,
  sinceOf,
} from './log-entries.ts';
import type { RunFolder } from './run-folder.ts';

/** How far the file holds the container's log; `is_whole` once that has ended and all is here. */
type Cursor = { size: number; mark: LogMark | null; is_whole: boolean };

export type OutputPuller = {
  /** Appends what is new. `has_ended`: the container wrote its last before this was called. */
  pull(at: RunFolder, container_id: string, has_ended: boolean): Promise<{ is_whole: boolean }>;
};

/** Looks at the end of the log first: reading all of it takes the engine a while. */
const tails = ['200', '4000', 'all'];
/** What is searched for the mark before it is taken for gone. */
const search_bytes = 4 * 1024 * 1024;
const silence_ms = 15_000;
const gap = Buffer.from('[einsora: some output was dropped before it was read]\n');

export function createOutputPuller(engine: Engine): OutputPuller {
  const mutex = createKeyedMutex();
  const waiting = new Map<string, Promise<{ is_whole: boolean }>>();
  return {
    pull(at, container_id, has_ended) {
      // Whoever asks while another one's look has not begun shares it.
      const key = `${at.name} ${has_ended}`;
      const found = waiting.get(key);
      if (found !== undefined) return found;
      const pulling = mutex.run(at.name, () => {
        waiting.delete(key);
        return pull(engine, at, container_id, has_ended);
      });
      waiting.set(key, pulling);
      return pulling;
    },
  };
}

async function pull(
  engine: Engine,
  at: RunFolder,
  container_id: string,
  has_ended: boolean,
): Promise<{ is_whole: boolean }> {
  const cursor = readCursor(at);
  if (cursor.is_whole) return { is_whole: true };
  let next: Cursor | null = null;
  for (const tail of tails) {
    if (cursor.mark === null && tail !== 'all') continue;
    next = await pullTail(engine, at, container_id, cursor, tail);
    if (next !== null) break;
  }
  const { size, mark } = next ?? cursor;
  const is_cut = boundOutput(at.output);
  const now: Cursor = { size: is_cut ? sizeOf(at) : size, mark, is_whole: has_ended };
  // Whoever waits for a line asks often, and mostly there is none.
  if (JSON.stringify(now) !== JSON.stringify(cursor)) writeCursor(at, now);
  return { is_whole: has_ended };
}

/** Null where so short an end of the log does not reach back to what is known. */
async function pullTail(
  engine: Engine,
  at: RunFolder,
  container_id: string,
  cursor: Cursor,
  tail: string,
): Promise<Cursor | null> {
  const since = cursor.mark === null ? undefined : sinceOf(cursor.mark);
  const query = { stdout: 1, stderr: 1, timestamps: 1, tail, since };
  const path = `/containers/${container_id}/logs`;
  const answer = await engine.open({ method: 'GET', path, query, timeout_ms: silence_ms });
  const state: Taking = { ...cursor, pending: cursor.mark === null ? null : [], bytes: 0 };
  const read = createFrameReader();
  try {
    for await (const chunk of answer) {
      const entries = read(chunk as Buffer).map(entryOf);
      if (!take(at, state, entries, tail)) return null;
    }
  } finally {
    answer.destroy();
  }
  if (state.pending !== null && state.pending.length > 0) {
    // The log is shorter than was asked for, so the marked entry is gone from it.
    if (tail !== 'all' && state.pending.length >= Number(tail)) return null;
    appendNew(at, state, [{ at: '', payload: gap }, ...state.pending]);
  }
  return { size: state.size, mark: state.mark, is_whole: false };
}

/** `pending`: read, but the marked entry did not come yet; null once it did. */
type Taking = { size: number; mark: LogMark | null; pending: LogEntry[] | null; bytes: number };

/** False where it is time to give up looking for the marked entry. */
function take(at: RunFolder, state: Taking, entries: LogEntry[], tail: string): boolean {
  if (state.pending === null || state.mark === null) {
    appendNew(at, state, entries);
    return true;
  }
  state.pending.push(...entries);
  state.bytes += entries.reduce((sum, { payload }) => sum + payload.length, 0);
  const seen = countSeen(state.pending, state.mark);
  if (seen === null && state.bytes < search_bytes) return true;
  if (seen === null && tail !== 'all') return false;
  const lost = seen === null ? [{ at: '', payload: gap }] : [];
  const fresh = [...lost, ...state.pending.slice(seen ?? 0)];
  state.pending = null;
  appendNew(at, state, fresh);
  return true;
}

function appendNew(at: RunFolder, state: Taking, entries: LogEntry[]): void {
  if (entries.length === 0) return;
  const bytes = Buffer.concat(entries.map(({ payload }) => payload));
  appendFileSync(at.output, bytes, { mode: 0o600 });
  state.size += bytes.length;
  for (const entry of entries) if (entry.at !== '') state.mark = advance(state.mark, entry);
}

function readCursor(at: RunFolder): Cursor {
  const size = sizeOf(at);
  const text = readIfThere(at.cursor);
  const found = (text === null ? null : parse(text)) as Cursor | null;
  if (typeof found?.size !== 'number' || found.size > size) {
    if (size > 0) truncateSync(at.output, 0);
    return { size: 0, mark: null, is_whole: false };
  }
  // Written before this program was killed, without a word of it in the cursor.
  if (size > found.size) truncateSync(at.output, found.size);
  return found;
}

function writeCursor(at: RunFolder, cursor: Cursor): void {
  const temporary = `${at.cursor}.tmp`;
  writeFileSync(temporary, JSON.stringify(cursor), { mode: 0o600 });
  renameSync(temporary, at.cursor);
}

function sizeOf(at: RunFolder): number {
  return statSync(at.output, { throwIfNoEntry: false })?.size ?? 0;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
