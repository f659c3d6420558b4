/**
 * Runs of which the gateway has doubts: what it asked them failed of late, or gave no token. Told
 * with each answer of the control plane; the agent looks for itself before it does anything.
 */
import { type RunKey, runName } from '../core/run.ts';

export type Doubts = {
  /** All there are now. */
  learn(runs: readonly RunKey[]): void;
  has(run: RunKey): boolean;
};

export function createDoubts(): Doubts {
  let names: ReadonlySet<string> = new Set();
  return {
    learn(runs) {
      names = new Set(runs.map(runName));
    },
    has: (run) => names.has(runName(run)),
  };
}
