/**
 * What one run goes through, by its name and the seed alone: the same in every replay, whatever
 * else of the schedule is left out.
 */
import { type RunExit, type RunKey, runName } from '../../src/core/run.ts';
import { createChance } from './chance.ts';

export type RunPlan = {
  start_ms: number;
  start_fails: boolean;
  ready_after_ms: number;
  exit_after_ms: number | null;
  exit: RunExit;
  hangs_after_ms: number | null;
  stop_ms: number;
  refused_stops: number;
};

export function planOfRun(seed: number, run: RunKey): RunPlan {
  const chance = createChance(seed, `plan ${runName(run)}`);
  const out_of_memory = chance.is(0.2);
  // Some workloads end soon whenever they run.
  const is_hopeless = createChance(seed, `hope ${run.workload_id}`).is(0.08);
  return {
    start_ms: chance.is(0.1) ? chance.between(10_000, 300_000) : chance.between(50, 3000),
    start_fails: chance.is(0.03),
    ready_after_ms: chance.is(0.1) ? chance.between(60_000, 300_000) : chance.between(500, 20_000),
    exit_after_ms: is_hopeless
      ? chance.between(100, 10_000)
      : chance.is(0.2)
        ? chance.between(100, 3_600_000)
        : null,
    exit: {
      code: out_of_memory ? null : chance.between(0, 2),
      signal: out_of_memory ? 'SIGKILL' : null,
      out_of_memory,
    },
    hangs_after_ms: chance.is(0.05) ? chance.between(1000, 3_600_000) : null,
    stop_ms: chance.is(0.1) ? chance.between(5000, 120_000) : chance.between(10, 2000),
    refused_stops: chance.is(0.1) ? chance.between(1, 3) : 0,
  };
}
