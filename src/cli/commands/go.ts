/**
 * What the files beside this one need to add their commands: each adds the commands of one area and
 * loads the work itself only when a command is called.
 */
import type { Context } from '../io.ts';

/** Makes a commander action of work that resolves with an exit code. */
export type Go = <A extends unknown[]>(
  work: (context: Context, ...args: A) => Promise<number>,
) => (...args: A) => Promise<void>;

export const json_text = 'print one JSON document';
export const timeout_text = 'wait at most so long (90s, 10m), then leave it going on';

/** Of an option that may be repeated: all its values. */
export const collect = (one: string, before: string[] = []): string[] => [...before, one];
