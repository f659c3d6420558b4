/**
 * What became of a run, from what the engine says of its container and what /proc says of it.
 *
 * Invariants: pure; `exited` only where the engine says so and nothing speaks against it; 137 alone
 * is no lack of memory; what the engine shows as running without a process is in doubt.
 */
import type { RunExit } from '../../core/run.ts';
import { exitOf } from '../native/label.ts';
import type { Container } from './container.ts';

export type Judgement =
  /** Made, and never begun. */
  | { state: 'unbegun' }
  | { state: 'running'; started_at: number | null }
  | { state: 'exited'; exit: RunExit; started_at: number | null }
  | {
      state: 'unknown';
      started_at: number | null;
      why: string;
      /** The engine shows a process that is not there. */
      is_ghost?: boolean;
    };

export type ProcessFacts = {
  /** Whether its first process is there; null where that cannot be seen. */
  is_alive: boolean | null;
  /** Kills for lack of memory that were counted, or told by the engine's events. */
  oom_kills: number;
};

export function judge(container: Container, facts: ProcessFacts): Judgement {
  const { status, started_at, error } = container;
  switch (status) {
    case 'created':
      return { state: 'unbegun' };
    case 'running':
    case 'paused':
      if (facts.is_alive !== false) return { state: 'running', started_at };
      return {
        state: 'unknown',
        started_at,
        is_ghost: true,
        why: `the engine shows it as running, and its process ${container.pid} is gone`,
      };
    case 'restarting':
      return { state: 'unknown', started_at, why: 'the engine is starting it again' };
    case 'removing':
    case 'dead':
    case 'exited':
      if (facts.is_alive === true) {
        const why = `the engine shows it as ${status}, and processes of it are there`;
        return { state: 'unknown', started_at, why };
      }
      return { state: 'exited', exit: exitOfContainer(container, facts.oom_kills), started_at };
    default:
      return { state: 'unknown', started_at, why: `the engine shows it as ${status} ${error}` };
  }
}

function exitOfContainer(container: Container, oom_kills: number): RunExit {
  return exitOf(container.exit_code, oom_kills + (container.is_oom_killed ? 1 : 0));
}
