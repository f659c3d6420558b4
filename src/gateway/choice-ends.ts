/**
 * Whether each choice of an answer has come to its end, as far as its chunks were read.
 *
 * Invariants: a choice that was begun is whole only once the engine said why it ended; one that
 * ended stays so. Of an answer with one choice the first chunk and the last are enough.
 */
import { type Fields, isFields } from './whole/fields.ts';

export type ChoiceEnds = {
  see(chunk: Fields): void;
  /** At least one has ended, and none is open. */
  areAll(): boolean;
};

export function createChoiceEnds(): ChoiceEnds {
  const begun = new Set<unknown>();
  const ended = new Set<unknown>();
  return {
    see({ choices }) {
      if (!Array.isArray(choices)) return;
      for (const choice of choices) {
        if (!isFields(choice)) continue;
        const { index = 0, finish_reason } = choice;
        begun.add(index);
        if (finish_reason) ended.add(index);
      }
    },
    areAll: () => ended.size > 0 && ended.size === begun.size,
  };
}

/** A chunk passed over unread may be of another choice than the first: of these all are read. */
export function hasSeveralChoices({ n, prompt }: Fields): boolean {
  const is_list = Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number';
  return is_list || (typeof n === 'number' && n > 1);
}
