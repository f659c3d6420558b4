/**
 * Runs that something is held open by: told when they are no longer what their workload runs.
 *
 * Invariants: told at most once each, within a second of the stop, the end or the new run being
 * recorded; nothing is read where nothing is held; a failed look is left to the next one.
 */
import type { RunKey } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { createSignal } from '../lib/signal.ts';
import { type RunNow, runsNow } from '../store/access.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { Changes } from './changes.ts';

export type RunWatch = {
  /** Calls `ended` once when the run is not its workload's running one. Returns the undoing. */
  watch(run: RunKey, ended: () => void): () => void;
  stop(): Promise<void>;
};

type Watched = { run: RunKey; ended: () => void };

/** What comes together is looked at together. */
const gather_ms = 50;
/** What another control plane of the deployment writes is seen by looking. */
const look_ms = 900;
const at_a_time = 250;

export function createRunWatch(deps: {
  store: EinsoraStore;
  changes: Pick<Changes, 'onSettled'>;
  clock: Clock;
  log: Log;
}): RunWatch {
  const { store, changes, clock, log } = deps;
  const held = new Set<Watched>();
  const news = createSignal();
  const stopping = new AbortController();
  let running: Promise<void> | null = null;
  changes.onSettled(() => {
    if (held.size > 0) news.notify();
  });

  async function loop(): Promise<void> {
    while (held.size > 0 && !stopping.signal.aborted) {
      try {
        await look();
      } catch (error) {
        log.warn({ error: describeError(error) }, 'runs were not looked at');
      }
      await clock.sleep(gather_ms, stopping.signal);
      await news.wait(clock, look_ms, stopping.signal);
    }
    running = null;
  }

  async function look(): Promise<void> {
    // Who joins while it is read has seen something newer.
    const before = [...held];
    const ids = [...new Set(before.map(({ run }) => run.workload_id))];
    for (let from = 0; from < ids.length; from += at_a_time) {
      const some = ids.slice(from, from + at_a_time);
      const rows = await store.read(runsNow, { ids: some });
      const asked = new Set(some);
      for (const one of before) {
        if (!asked.has(one.run.workload_id) || isCurrent(one.run, rows) || !held.delete(one)) {
          continue;
        }
        one.ended();
      }
    }
  }

  return {
    watch(run, ended) {
      const one = { run, ended };
      held.add(one);
      running ??= loop();
      return () => void held.delete(one);
    },
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

function isCurrent(run: RunKey, rows: readonly RunNow[]): boolean {
  const row = rows.find(
    ({ id, run_epoch }) => id === run.workload_id && run_epoch === run.run_epoch,
  );
  return row?.state === 'running';
}
