/**
 * What `npm run sim` and its workers are asked for, as words of a command line and back.
 *
 * Invariants: what is not understood is refused; the words of a failing story replay it alone.
 */
import { parseArgs } from 'node:util';
import type { Mode, PlayOptions } from './play.ts';

export type SimOptions = {
  first: number;
  count: number;
  hours: number;
  machines: number;
  mode: Mode | 'both';
  keep: number[] | null;
  mutant: string | null;
  verbose: boolean;
};

const usage = `npm run sim -- --seeds N [--seed S] [--hours H] [--machines M]
  [--mode safety|liveness|both] [--mutant NAME] [--keep 1,2,3] [--verbose]`;

/** Throws with how it is used. */
export function parseSim(words: string[]): SimOptions {
  const { values } = parseArgs({
    args: words,
    options: {
      seeds: { type: 'string' },
      seed: { type: 'string' },
      hours: { type: 'string', default: '4' },
      machines: { type: 'string', default: '10' },
      mode: { type: 'string', default: 'both' },
      mutant: { type: 'string' },
      keep: { type: 'string' },
      verbose: { type: 'boolean', default: false },
    },
  });
  const { mode, keep } = values;
  if (mode !== 'safety' && mode !== 'liveness' && mode !== 'both') throw new Error(usage);
  return {
    first: numberOf(values.seed ?? '1'),
    count: numberOf(values.seeds ?? '1'),
    hours: numberOf(values.hours),
    machines: numberOf(values.machines),
    mode,
    keep: keep === undefined ? null : keep.split(',').filter(Boolean).map(numberOf),
    mutant: values.mutant ?? null,
    verbose: values.verbose,
  };
}

function numberOf(word: string): number {
  const number = Number(word);
  if (!Number.isFinite(number) || number < 0) throw new Error(`${word} is no number\n${usage}`);
  return number;
}

/** With `both`, every other seed is healed and must converge. */
export function modeOf(seed: number, mode: SimOptions['mode']): Mode {
  if (mode !== 'both') return mode;
  return seed % 2 === 0 ? 'safety' : 'liveness';
}

/** The one line that plays it again. */
export function replayLine(options: PlayOptions, mutant: string | null): string {
  const { seed, hours, machines, mode, keep } = options;
  const words = [`--seed ${seed} --hours ${hours} --machines ${machines} --mode ${mode}`];
  if (mutant !== null) words.push(`--mutant ${mutant}`);
  if (keep !== null) words.push(`--keep ${keep.join(',')}`);
  return `npm run sim -- ${words.join(' ')}`;
}
