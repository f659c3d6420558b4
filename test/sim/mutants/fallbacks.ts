/**
 * Mutants of fallbacks: what may stand in for what was asked, and when.
 */
import type { Mutant } from './mutant.ts';

export const fallbackMutants: readonly Mutant[] = [
  {
    name: 'fallback-without-its-wait',
    bug: 'I-15',
    file: 'src/core/fallback.ts',
    find: 'return after_ms <= 0 || now - state_since >= after_ms;',
    replace: 'return after_ms <= 0 || now - state_since >= 0;',
    why: 'who said that they wait ten minutes for a GPU is put on a CPU at once',
  },
  {
    name: 'fallback-of-another-step',
    bug: 'I-15',
    file: 'src/core/fallback.ts',
    find: `  const step = spec.fallback[number - 1];
  return step === undefined ? null : { ...spec, ...step.set };`,
    replace: `  const step = spec.fallback[number] ?? spec.fallback[number - 1];
  return step === undefined ? null : { ...spec, ...step.set };`,
    why: 'it is told that one thing stands in, and it is another one',
  },
  {
    name: 'pin-forgotten',
    bug: 'I-15',
    file: 'src/core/ask.ts',
    find: 'return (home_machine_id || null) ?? machine?.id ?? null;',
    replace: 'return home_machine_id || (machine && null) || null;',
    also: {
      file: 'src/store/fallback.ts',
      find: 'return only === placement.machine_id;',
      replace: "return only !== '';",
    },
    why: 'what asks for one machine runs on another that nobody named',
  },
  {
    name: 'returns-too-often',
    bug: 'I-15',
    file: 'src/store/fallback-return.ts',
    find: 'export const return_after_ms = 30 * 60_000;',
    replace: 'export const return_after_ms = 60_000;',
    why: 'an endpoint goes to and fro between two machines all day, and answers in between',
  },
];
