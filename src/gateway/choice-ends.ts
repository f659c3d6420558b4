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
  return new Ends();
}

/** A class, for each open stream has one. */
class Ends implements ChoiceEnds {
  /** By index: has it ended? */
  readonly #choices = new Map<unknown, boolean>();
  #open = 0;

  see({ choices }: Fields): void {
    if (!Array.isArray(choices)) return;
    for (const choice of choices) {
      if (!isFields(choice)) continue;
      const { index = 0, finish_reason } = choice;
      const had_ended = this.#choices.get(index);
      const has_ended = had_ended === true || Boolean(finish_reason);
      if (had_ended === undefined) this.#open += 1;
      if (has_ended && had_ended !== true) this.#open -= 1;
      this.#choices.set(index, has_ended);
    }
  }

  areAll(): boolean {
    return this.#choices.size > 0 && this.#open === 0;
  }
}

/** A chunk passed over unread may be of another choice than the first: of these all are read. */
export function hasSeveralChoices({ n, prompt }: Fields): boolean {
  const is_list = Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number';
  return is_list || (typeof n === 'number' && n > 1);
}
