/**
 * Which of several runs answers a request: the one that has the fewest to answer now.
 *
 * Invariants: of those that have equally few one is taken at random, so that they fill evenly; what
 * was begun counts until it has ended, however it ended.
 */
import { type RunKey, runName } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';

export type LeastBusy = {
  /** One that could not be reached of late is taken where there is no other. */
  choose<One extends RunKey>(runs: readonly One[]): One | undefined;
  /** A request is with this run until the returned function is called. */
  begin(run: RunKey): () => void;
  /** No connection to it could be opened. */
  unreachable(run: RunKey): void;
};

/** Long enough to hear that it is gone, short enough for one that only hiccuped. */
const avoided_ms = 5000;
const avoided_limit = 1000;

export function createLeastBusy(random: Random, clock: Pick<Clock, 'monotonic'>): LeastBusy {
  const open = new Map<string, number>();
  const avoided = new Map<string, number>();
  const isAvoided = (run: RunKey) => {
    const since = avoided.get(runName(run));
    return since !== undefined && clock.monotonic() - since < avoided_ms;
  };
  const countOf = (run: RunKey) => open.get(runName(run)) ?? 0;
  return {
    choose(all) {
      const reached = avoided.size === 0 ? all : all.filter((run) => !isAvoided(run));
      const runs = reached.length === 0 ? all : reached;
      if (runs.length < 2) return runs[0];
      const least = Math.min(...runs.map(countOf));
      const equal = runs.filter((run) => countOf(run) === least);
      const [byte = 0] = random.bytes(1);
      return equal[byte % equal.length];
    },
    unreachable(run) {
      if (avoided.size >= avoided_limit) avoided.clear();
      avoided.set(runName(run), clock.monotonic());
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
