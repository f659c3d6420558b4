/**
 * What the machine's owner pressed: `einsora pause` and `resume`, kept in a file of the agent.
 *
 * Invariants: it holds until its time or until it is taken back, over restarts; a file that cannot
 * be read counts as pressed, for whoever pressed it meant it.
 */
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { formatDuration } from '../../core/format.ts';
import type { Finding } from '../../drivers/driver.ts';
import { makePrivateFolder, readIfThere, writeDurably } from '../../lib/files.ts';

const buttonSchema = z.object({
  /** Wall-clock milliseconds; null: until it is taken back. */
  until: z.number().nullable(),
  /** Without grace. */
  now: z.boolean(),
  /** The owner's own workloads stand still too. */
  everyone: z.boolean(),
});
export type Button = z.infer<typeof buttonSchema>;

const pressed_anyway: Button = { until: null, now: false, everyone: false };

export function buttonPath(data_dir: string): string {
  return join(data_dir, 'agent', 'paused.json');
}

/** Null where nothing is pressed, or no more. */
export function readButton(path: string, now: number): Button | null {
  const text = readText(path);
  if (text === null) return null;
  const found = buttonSchema.safeParse(parse(text));
  const button = found.success ? found.data : pressed_anyway;
  return button.until !== null && button.until <= now ? null : button;
}

export function pressButton(path: string, button: Button): void {
  makePrivateFolder(dirname(path));
  writeDurably(path, `${JSON.stringify(button)}\n`);
}

/** False where nothing was pressed. */
export function releaseButton(path: string): boolean {
  const was = readText(path) !== null;
  rmSync(path, { force: true });
  return was;
}

/** For the doctor and the page of the machine; null where nothing is pressed. */
export function buttonFinding(data_dir: string, now: number): Finding | null {
  const button = readButton(buttonPath(data_dir), now);
  if (button === null) return null;
  const until = button.until === null ? '' : ` for ${formatDuration(button.until - now)} more`;
  const message = `this machine is paused by its owner${until}: nothing new starts on it`;
  return { check: 'pause', status: 'warning', message, fix: 'bin/einsora resume' };
}

function readText(path: string): string | null {
  try {
    return readIfThere(path);
  } catch {
    return '';
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
