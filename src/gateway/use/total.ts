/**
 * The usage of a whole answer, out of all that an engine tells of it in a stream.
 *
 * Invariants: of what is told again and again the last counts; an engine that tells the usage of
 * each choice by itself (llama-server, for `n` of 2 and more and for several prompts) is believed
 * by their sum, in which a prompt that several choices answer counts once.
 */
import { type Fields, isFields } from '../whole/fields.ts';
import { readUsage, usageOf } from './reported.ts';

/** What the usage at the end of a stream is of. */
export type UseOf = 'answer' | 'choice';

export type UseTotal = {
  add(chunk: Fields): void;
  /** In the shape of the API; null where the engine told none. */
  total(): Fields | null;
  /** The engine told what the answer used in all. */
  isFinal(): boolean;
  /** Of the usages that it tells beside no choice, those that are still to come. */
  left(): number;
};

/** `choices`: how many answer one prompt (`n`). */
export function createUseTotal(of: UseOf, choices: number): UseTotal {
  return new Total(of, choices);
}

/** A class, for each open answer has one. */
class Total implements UseTotal {
  readonly #of: UseOf;
  readonly #choices: number;
  /** Told beside no choice: of the answer, or of a choice that is not named. */
  #ends: Fields[] = [];
  /** Told beside a choice: of what came of it so far. */
  #so_far: Map<unknown, Fields> | null = null;

  constructor(of: UseOf, choices: number) {
    this.#of = of;
    this.#choices = choices;
  }

  add(chunk: Fields): void {
    const usage = usageOf(chunk);
    if (usage === null) return;
    const [choice] = Array.isArray(chunk.choices) ? chunk.choices : [];
    if (isFields(choice)) {
      this.#so_far ??= new Map();
      this.#so_far.set(choice.index, usage);
    } else this.#ends = this.#of === 'answer' ? [usage] : [...this.#ends, usage];
  }

  total(): Fields | null {
    const told = this.#ends.length > 0 ? this.#ends : [...(this.#so_far?.values() ?? [])];
    const [first, ...others] = told;
    if (first === undefined || others.length === 0) return first ?? null;
    return summed(told, Math.max(1, this.#choices));
  }

  isFinal(): boolean {
    return this.#of === 'answer' && this.#ends.length > 0;
  }

  left(): number {
    return (this.#of === 'answer' ? 1 : this.#choices) - this.#ends.length;
  }
}

function summed(told: readonly Fields[], choices: number): Fields {
  let [prompt, completion_tokens, cached] = [0, 0, 0];
  for (const usage of told) {
    const read = readUsage(usage);
    prompt += read?.prompt_tokens ?? 0;
    completion_tokens += read?.completion_tokens ?? 0;
    cached += read?.cached_tokens ?? 0;
  }
  const prompt_tokens = Math.round(prompt / choices);
  return {
    ...told.at(-1),
    ...{ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    prompt_tokens_details: { cached_tokens: Math.round(cached / choices) },
  };
}
