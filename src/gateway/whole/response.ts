/**
 * The whole answer of the responses API: the last event of its stream carries it.
 *
 * Invariants: what ended as failed or incomplete is told as such by the engine's own words.
 */
import { type Fields, isFields } from './fields.ts';
import type { Whole } from './whole.ts';

const ends = new Set(['response.completed', 'response.incomplete', 'response.failed']);

export function createResponseWhole(): Whole {
  let answer: Fields | null = null;
  return {
    see(chunk) {
      if (!isFields(chunk)) return;
      if (ends.has(String(chunk.type)) && isFields(chunk.response)) answer = chunk.response;
    },
    isWhole: () => answer !== null,
    result: () => answer ?? {},
  };
}
