/**
 * Every mutant, by area.
 */
import { agentMutants } from './agents.ts';
import { epochMutants } from './epochs.ts';
import { holdMutants } from './holds.ts';
import type { Mutant } from './mutant.ts';
import { timelineMutants } from './timeline.ts';
import { usageMutants } from './usage.ts';

export const mutants: readonly Mutant[] = [
  ...holdMutants,
  ...epochMutants,
  ...timelineMutants,
  ...agentMutants,
  ...usageMutants,
];

/** Throws where there is none of this name. */
export function mutantOf(name: string): Mutant {
  const found = mutants.find((mutant) => mutant.name === name);
  if (found === undefined) throw new Error(`there is no mutant ${name}`);
  return found;
}
