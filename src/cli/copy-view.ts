/**
 * How far a copy is, on stderr: one line that is rewritten on a terminal, nothing elsewhere.
 */
import { formatBytes } from '../core/format.ts';
import { plainText } from '../lib/text.ts';
import type { Context } from './io.ts';
import { cutTo, say } from './output.ts';

export type CopyView = {
  /** A file begins; its size is null where nobody knows it. */
  begin(path: string, size: number | null): void;
  moved(bytes: number): void;
  /** Something that is worth a line of its own. */
  note(text: string): void;
  close(): void;
};

const every_ms = 200;

export function openCopyView(context: Context): CopyView {
  const { stderr, clock } = context.io;
  const rewrites = stderr.isTTY === true && context.config.can_rewrite;
  let file = { path: '', size: null as number | null, done: 0, began_at: clock.monotonic() };
  let shown_at = Number.NEGATIVE_INFINITY;
  let is_shown = false;

  function clear(): void {
    if (is_shown) stderr.write('\r\u001b[K');
    is_shown = false;
  }

  function show(): void {
    const now = clock.monotonic();
    if (!rewrites || now - shown_at < every_ms) return;
    shown_at = now;
    const { path, size, done, began_at } = file;
    const percent = size === null || size === 0 ? '' : `${Math.floor((done / size) * 100)}% `;
    const speed = formatBytes(Math.round(done / Math.max(0.001, (now - began_at) / 1000)));
    clear();
    const line = `${percent}${formatBytes(done)} (${speed}/s) ${path}`;
    stderr.write(cutTo(plainText(line), (stderr.columns || 80) - 1));
    is_shown = true;
  }

  return {
    begin(path, size) {
      file = { path, size, done: 0, began_at: clock.monotonic() };
    },
    moved(bytes) {
      file.done += bytes;
      show();
    },
    note(text) {
      clear();
      say(context, plainText(text));
    },
    close: clear,
  };
}
