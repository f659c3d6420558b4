/**
 * Waiting for a slot of an endpoint's engines, fair between keys: a line for each endpoint.
 *
 * Invariants: an endpoint of which nothing is at work and nothing waits is forgotten.
 */
import { limits } from '../../contract/limits.ts';
import { refusals } from '../errors.ts';
import type { Turns } from '../limiter.ts';
import { createTurnLine, type TurnClock, type TurnLine } from './turn-line.ts';

export type TurnsOptions = { clock: TurnClock; waiting?: number };

export function createTurns({ clock, waiting = limits.turns_waiting }: TurnsOptions): Turns {
  const lines = new Map<string, TurnLine>();

  function lineOf(workload_id: string): TurnLine {
    const known = lines.get(workload_id);
    if (known !== undefined) return known;
    const line = createTurnLine({ clock, waiting, onIdle: () => lines.delete(workload_id) });
    lines.set(workload_id, line);
    return line;
  }

  return {
    enter({ workload_id, ...asked }) {
      if (asked.stop.reason() !== null) return { ok: false, refusal: refusals.shuttingDown };
      return lineOf(workload_id).enter(asked);
    },
    standing: () =>
      [...lines].flatMap(([workload_id, line]) =>
        line.standing().map((one) => ({ workload_id, ...one })),
      ),
  };
}
