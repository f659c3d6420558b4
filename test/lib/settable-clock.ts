/**
 * The wall clock of a program under test, to be set as somebody sets a machine's.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { repository } from './program.ts';

export type SettableClock = {
  /** What the program is started with. */
  env: Record<string, string>;
  /** How far its clock is off from now on, in milliseconds. */
  set(offset_ms: number): void;
};

/** Right until it is set; what it is set to lies in a file of `folder`. */
export function settableClock(folder: string): SettableClock {
  const path = join(folder, 'test-clock');
  const set = (offset_ms: number) => writeFileSync(path, String(offset_ms));
  set(0);
  const hook = pathToFileURL(join(repository, 'test/lib/stepped-clock.mjs')).href;
  return { env: { NODE_OPTIONS: `--import=${hook}`, EINSORA_TEST_CLOCK: path }, set };
}
