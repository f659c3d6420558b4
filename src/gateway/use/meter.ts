/**
 * Counts what one answer uses while its stream goes by, and takes out of it what its client did not
 * ask for.
 *
 * Invariants: what the engine tells is believed, its last word first; an answer that ended without
 * the engine's own count is estimated by its pieces: never more than one too many, and as many too
 * few as an engine put into pieces of several tokens. Called with each frame, so nothing here is
 * more than a few comparisons.
 */
import type { TokenUse } from '../request-record.ts';
import type { Fields } from '../whole/fields.ts';
import type { WantedUse } from './ask-for-use.ts';
import { readUsage } from './reported.ts';
import type { UseTotal } from './total.ts';

export type UseMeter = {
  /** So many pieces of the answer went by. */
  pieces(count: number): void;
  /**
   * Sees the data of a frame that may tell more than a piece. Returns what the client gets in its
   * place: the same object, another one, or null for nothing.
   */
  see(chunk: Fields): Fields | null;
  /** In the shape of the API, for an answer that is built; null where the engine told none. */
  usage(): Fields | null;
  /** What it used so far. `has_ended`: each choice of it came to its end. */
  use(has_ended: boolean): TokenUse;
};

export type MeterOptions = {
  total: UseTotal;
  /** Estimated, for an answer whose engine told nothing. */
  prompt_tokens: number;
  wanted: WantedUse;
  /** The engine was asked to tell because we want to know; left out, all goes through. */
  was_injected: boolean;
};

export function createUseMeter(options: MeterOptions): UseMeter {
  return new Meter(options);
}

/** A class, for each open answer has one. */
class Meter implements UseMeter {
  readonly #options: MeterOptions;
  #seen = 0;

  constructor(options: MeterOptions) {
    this.#options = options;
  }

  pieces(count: number): void {
    this.#seen += count;
  }

  see(chunk: Fields): Fields | null {
    this.#options.total.add(chunk);
    return this.#toldOf(chunk);
  }

  usage(): Fields | null {
    return this.#options.total.total();
  }

  use(has_ended: boolean): TokenUse {
    const { total, prompt_tokens } = this.#options;
    const usage = total.total();
    const told = usage === null ? null : readUsage(usage);
    if (told !== null && (has_ended || total.isFinal())) return { ...told, is_estimated: false };
    return {
      prompt_tokens: told?.prompt_tokens ?? prompt_tokens,
      completion_tokens: Math.max(told?.completion_tokens ?? 0, this.#seen),
      cached_tokens: told?.cached_tokens ?? 0,
      is_estimated: true,
    };
  }

  #toldOf(chunk: Fields): Fields | null {
    const { wanted, was_injected } = this.#options;
    if (!('usage' in chunk)) return chunk;
    const is_end = Array.isArray(chunk.choices) && chunk.choices.length === 0;
    if (is_end && wanted.at_end) return this.#endOf(chunk);
    if (!was_injected) return chunk;
    if (is_end) return null;
    if (wanted.continuous) return chunk;
    const { usage: _, ...rest } = chunk;
    return rest;
  }

  /** One for the answer, also of an engine that tells of each choice by itself. */
  #endOf(chunk: Fields): Fields | null {
    const { total } = this.#options;
    if (total.left() > 0) return null;
    const usage = total.total();
    return usage === null || usage === chunk.usage ? chunk : { ...chunk, usage };
  }
}
