/**
 * The whole answer of chat and of completions, out of the chunks of a stream.
 *
 * Invariants: however an engine cut its answer into chunks, the same answer comes out; choices
 * stand in the order of their index; of the fields of a chunk the last value counts.
 */
import { addFields, emptyFields, type Fields, isFields } from './fields.ts';
import type { Whole } from './whole.ts';

export type ChoiceShape = {
  object: string;
  /** Chat's deltas become a message; a completion's fields stand in the choice itself. */
  has_message: boolean;
};

export function createChoicesWhole({ object, has_message }: ChoiceShape): Whole {
  const answer = emptyFields();
  const choices = new Map<number, Fields>();

  function addChoice(choice: Fields): void {
    const index = typeof choice.index === 'number' ? choice.index : 0;
    const { delta } = choice;
    const into = choices.get(index) ?? emptyFields();
    choices.set(index, into);
    addFields(into, choice, 'delta');
    if (!has_message) return;
    const message = isFields(into.message) ? into.message : emptyFields();
    into.message = message;
    if (isFields(delta)) addFields(message, delta);
  }

  return {
    see(chunk) {
      if (!isFields(chunk)) return;
      for (const name of Object.keys(chunk)) {
        if (name === 'choices') continue;
        const value = chunk[name];
        if (value !== null || !(name in answer)) answer[name] = value;
      }
      if (!Array.isArray(chunk.choices)) return;
      for (const choice of chunk.choices) if (isFields(choice)) addChoice(choice);
    },
    isWhole: () =>
      choices.size > 0 &&
      [...choices.values()].every(({ finish_reason }) => typeof finish_reason === 'string'),
    result(usage) {
      const sorted = [...choices].sort(([one], [other]) => one - other);
      const built = sorted.map(([index, choice]) => builtChoice(index, choice));
      const counted = usage ?? answer.usage ?? null;
      const told = counted === null ? {} : { usage: counted };
      const { usage: _, ...rest } = answer;
      return { ...rest, object, choices: built, ...told };
    },
  };
}

function builtChoice(index: number, choice: Fields): Fields {
  const built: Fields = { finish_reason: null, ...choice, index };
  if (isFields(choice.message)) built.message = builtMessage(choice.message);
  return built;
}

/**
 * A call has no index in a whole answer. A text of which nothing came is empty, as in the engines'
 * own answers, save where something else was said in its place.
 */
function builtMessage(message: Fields): Fields {
  const { tool_calls, content } = message;
  const calls = Array.isArray(tool_calls) ? sortedCalls(tool_calls) : null;
  const built: Fields = { role: 'assistant', content: null, ...message };
  if (calls !== null) built.tool_calls = calls;
  const speaks = ['function_call', 'refusal', 'audio'].some((name) => built[name]);
  if (content === null && !speaks) built.content = '';
  return built;
}

function sortedCalls(calls: readonly unknown[]): unknown[] {
  const place = (call: unknown) =>
    isFields(call) && typeof call.index === 'number' ? call.index : Number.POSITIVE_INFINITY;
  const sorted = calls.toSorted((one, other) => place(one) - place(other) || 0);
  return sorted.map((call) => {
    if (!isFields(call)) return call;
    const { index: _, ...rest } = call;
    return rest;
  });
}
