/**
 * A pull as one line: what, how much of it, how fast, how long still.
 *
 * Invariants: pure; a total that nobody knows is not guessed; the speed is that of the last
 * seconds, so that a resumed pull is not credited with what was there.
 */
import type { ModelFile } from '../contract/model-files.ts';
import { formatBytes, formatDuration } from '../core/format.ts';
import { oneLine } from './output.ts';

/** A look at the bytes, for the speed. */
export type Look = { at: number; done_bytes: number };

const window_ms = 5000;
const bar_cells = 20;

/** Adds a look and drops those that are too old. */
export function withLook(looks: readonly Look[], look: Look): Look[] {
  const first = looks[0];
  const goes_on = first !== undefined && look.done_bytes >= first.done_bytes;
  return [...(goes_on ? looks.filter((one) => look.at - one.at <= window_ms) : []), look];
}

/** `pulling m.gguf   62% ▕████████████▍       ▏ 373 MB of 600 MB  12.1 MB/s  19 s left`. */
export function pullLine(file: ModelFile, looks: readonly Look[]): string {
  const name = shortName(file.source);
  const { done_bytes, total_bytes } = file;
  if (file.state === 'queued') return `pulling ${name}  waiting for ${oneLine(file.machine_name)}`;
  if (done_bytes === null || total_bytes === null || total_bytes === 0) return `pulling ${name}`;
  const part = Math.min(1, done_bytes / total_bytes);
  const percent = `${Math.floor(part * 100)}%`.padStart(4);
  const bytes = `${formatBytes(done_bytes)} of ${formatBytes(total_bytes)}`;
  const [first, last] = [looks[0], looks.at(-1)];
  const line = `pulling ${name} ${percent} ${bar(part)} ${bytes}`;
  if (first === undefined || last === undefined || last.at <= first.at) return line;
  const per_ms = (last.done_bytes - first.done_bytes) / (last.at - first.at);
  if (per_ms <= 0) return `${line}  0 B/s`;
  const left = formatDuration(Math.max(1000, (total_bytes - done_bytes) / per_ms));
  return `${line}  ${formatBytes(per_ms * 1000)}/s  ${left} left`;
}

function bar(part: number): string {
  const eighths = Math.floor(part * bar_cells * 8);
  const rest = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8] ?? '';
  return `▕${('█'.repeat(Math.floor(eighths / 8)) + rest).padEnd(bar_cells)}▏`;
}

/** The last part of a source: what people call it. */
export function shortName(source: string): string {
  const last = source.split('/').at(-1) ?? source;
  return oneLine(last === '' ? source : last);
}
