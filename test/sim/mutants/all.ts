/**
 * Every mutant, by area.
 */
import { agentMutants } from './agents.ts';
import { deviceMutants } from './devices.ts';
import { epochMutants } from './epochs.ts';
import { fallbackMutants } from './fallbacks.ts';
import { holdMutants } from './holds.ts';
import type { Mutant } from './mutant.ts';
import { ownerMutants } from './owners.ts';
import { placeMutants } from './places.ts';
import { reclaimMutants } from './reclaim.ts';
import { replicaMutants } from './replicas.ts';
import { timelineMutants } from './timeline.ts';
import { usageMutants } from './usage.ts';

export const mutants: readonly Mutant[] = [
  ...holdMutants,
  ...deviceMutants,
  ...epochMutants,
  ...timelineMutants,
  ...agentMutants,
  ...ownerMutants,
  ...usageMutants,
  ...replicaMutants,
  ...fallbackMutants,
  ...reclaimMutants,
  ...placeMutants,
];

/** One or two of each area that the first stories catch: for every push. */
export const sample: readonly Mutant[] = [
  'hold-released-on-stop-request',
  'hold-leaks-after-exit',
  'placement-ignores-holds',
  'gpu-never-freed',
  'old-run-moves-workload',
  'stop-confirmed-at-once',
  'generation-stays-on-place',
  'stale-report-accepted',
  'event-dropped',
  'key-not-recorded',
  'retries-without-bound',
  'journal-after-start',
  'parked-before-exit',
  'no-news-is-nothing-wanted',
  'inventory-ignores-cap',
  'drained-machine-takes-more',
  'interval-left-open',
  'held-interval-left-open',
  'fallback-without-its-wait',
  'one-replica-moves-all',
  'region-is-no-matter',
  'home-is-only-a-hint',
  'back-off-by-wall-clock',
  'start-ignores-quota',
].map(mutantOf);

/** Throws where there is none of this name. */
export function mutantOf(name: string): Mutant {
  const found = mutants.find((mutant) => mutant.name === name);
  if (found === undefined) throw new Error(`there is no mutant ${name}`);
  return found;
}
