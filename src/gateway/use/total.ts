/**
 * The usage of a whole answer, out of all that an engine tells of it in a stream.
 *
 * Invariants: an engine that tells its usage of the answer so far is believed by its last word; one
 * that tells it of each choice (llama-server, for `n` of 2 and more and for several prompts) by the
 * sum of them. A prompt that several choices answer is counted once.
 */
import type { Fields } from '../whole/fields.ts';

/** What a usage that an engine tells is of. */
export type UseOf = 'answer' | 'choice';

export type UseTotal = {
  add(usage: Fields): void;
  /** In the engine's own shape; null where it told none. */
  total(): Fields | null;
};

/** `choices`: how many answer one prompt (`n`). */
export function createUseTotal(of: UseOf, choices: number): UseTotal {
  const told: Fields[] = [];
  return {
    add(usage) {
      if (of === 'answer') told.length = 0;
      told.push(usage);
    },
    total() {
      const [first, ...others] = told;
      if (first === undefined) return null;
      return others.length === 0 ? first : summed(told, Math.max(1, choices));
    },
  };
}

function summed(told: readonly Fields[], choices: number): Fields {
  const sum = (name: string, pick: (usage: Fields) => unknown = (usage) => usage[name]) =>
    told.reduce((so_far, usage) => so_far + numberOf(pick(usage)), 0);
  const prompt_tokens = Math.round(sum('prompt_tokens') / choices);
  const completion_tokens = sum('completion_tokens');
  const cached_tokens = Math.round(
    sum('', ({ prompt_tokens_details }) => Object(prompt_tokens_details).cached_tokens) / choices,
  );
  return {
    ...told.at(-1),
    completion_tokens,
    prompt_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens },
  };
}

function numberOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}
