/**
 * Which of several runs answers a request: the one that has the fewest to answer now.
 *
 * Invariants: of those that have equally few one is taken at random, so that they fill evenly; what
 * was begun counts until it has ended, however it ended.
 */
import { type RunKey, runName } from '../core/run.ts';
import type { Random } from '../lib/random.ts';

export type LeastBusy = {
  choose<One extends RunKey>(runs: readonly One[]): One | undefined;
  /** A request is with this run until the returned function is called. */
  begin(run: RunKey): () => void;
};

export function createLeastBusy(random: Random): LeastBusy {
  const open = new Map<string, number>();
  const countOf = (run: RunKey) => open.get(runName(run)) ?? 0;
  return {
    choose(runs) {
      if (runs.length < 2) return runs[0];
      const least = Math.min(...runs.map(countOf));
      const equal = runs.filter((run) => countOf(run) === least);
      const [byte = 0] = random.bytes(1);
      return equal[byte % equal.length];
    },
    begin(run) {
      const name = runName(run);
      open.set(name, countOf(run) + 1);
      let is_open = true;
      return () => {
        if (!is_open) return;
        is_open = false;
        const left = countOf(run) - 1;
        if (left > 0) open.set(name, left);
        else open.delete(name);
      };
    },
  };
}
