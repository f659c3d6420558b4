/**
 * Every mutant, by area.
 */
import { holdMutants } from './holds.ts';
import type { Mutant } from './mutant.ts';

export const mutants: readonly Mutant[] = [...holdMutants];

/** Throws where there is none of this name. */
export function mutantOf(name: string): Mutant {
  const found = mutants.find((mutant) => mutant.name === name);
  if (found === undefined) throw new Error(`there is no mutant ${name}`);
  return found;
}
