/**
 * Waiting for a slot of an endpoint's engines, fair between keys.
 *
 * Invariants: a freed slot goes at once to the key that was served longest ago, and inside a key to
 * who came first; never more are at work than there is room for, unless that shrank meanwhile; a
 * full queue makes room for a key that waits less at the cost of the one that waits most; who gave
 * up or ran out of time leaves nothing behind; an endpoint that nobody uses is forgotten.
 */
import { limits } from '../../contract/limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Refusal, refusals } from '../errors.ts';
import type { Turns } from '../limiter.ts';
import { createPace, type Pace } from './pace.ts';
import { createTurnQueue, type TurnQueue } from './turn-queue.ts';

type Enter = Parameters<Turns['enter']>[0];
type Turn = Awaited<ReturnType<Turns['enter']>>;
type Waiter = { settle(turn: Turn): void };

/** `capacity` is that of who came last: the newest knowledge of it. */
type Line = {
  queue: TurnQueue<Waiter>;
  at_work: number;
  pace: Pace;
  capacity(): number;
  stopLooking(): void;
};

export type WaitingTurns = Turns & {
  /** Requests of an endpoint that wait for a slot now. */
  waiting(workload_id: string): number;
};

export type TurnsOptions = { clock: Pick<Clock, 'monotonic' | 'after'>; waiting?: number };

export function createTurns({ clock, waiting = limits.turns_waiting }: TurnsOptions): WaitingTurns {
  const lines = new Map<string, Line>();

  function lineOf({ workload_id, capacity }: Enter): Line {
    const known = lines.get(workload_id);
    if (known !== undefined) {
      known.capacity = capacity;
      return known;
    }
    const made = { queue: createTurnQueue<Waiter>(), at_work: 0, pace: createPace() };
    const line: Line = { ...made, capacity, stopLooking: () => {} };
    lines.set(workload_id, line);
    return line;
  }

  /** A slot may appear without one being freed: another replica came up. */
  function watch(workload_id: string, line: Line): void {
    line.stopLooking();
    line.stopLooking = () => {};
    if (line.queue.size() === 0) {
      if (line.at_work === 0) lines.delete(workload_id);
      return;
    }
    line.stopLooking = clock.after(limits.turn_look_ms, () => serve(workload_id, line));
  }

  function serve(workload_id: string, line: Line): void {
    while (line.queue.size() > 0 && line.at_work < line.capacity()) {
      line.queue.next()?.settle(turnIn(workload_id, line));
    }
    watch(workload_id, line);
  }

  function turnIn(workload_id: string, line: Line): Turn {
    line.at_work += 1;
    const began_ms = clock.monotonic();
    let has_left = false;
    return {
      ok: true,
      leave() {
        if (has_left) return;
        has_left = true;
        line.at_work -= 1;
        line.pace.took(clock.monotonic() - began_ms);
        serve(workload_id, line);
      },
    };
  }

  function wait(asked: Enter, line: Line): Promise<Turn> {
    const { workload_id, key_id, signal } = asked;
    return new Promise((resolve) => {
      const settle = (turn: Turn) => {
        cancel();
        signal.removeEventListener('abort', giveUp);
        resolve(turn);
      };
      const waiter = { settle };
      const remove = (refusal: Refusal) => {
        line.queue.remove(key_id, waiter);
        settle({ ok: false, refusal });
        watch(workload_id, line);
      };
      const giveUp = () => remove(refusals.shuttingDown);
      const cancel = clock.after(limits.turn_wait_ms, () => remove(tooLate(retryOf(line))));
      signal.addEventListener('abort', giveUp, { once: true });
      line.queue.add(key_id, waiter);
      watch(workload_id, line);
    });
  }

  return {
    async enter(asked) {
      if (asked.signal.aborted) return { ok: false, refusal: refusals.shuttingDown };
      const line = lineOf(asked);
      const { queue } = line;
      if (queue.size() > 0) serve(asked.workload_id, line);
      if (queue.size() === 0 && line.at_work < line.capacity()) {
        return turnIn(asked.workload_id, line);
      }
      if (queue.size() >= waiting) {
        const refusal = full(retryOf(line));
        const displaced = queue.displace(asked.key_id);
        if (displaced === undefined) return { ok: false, refusal };
        displaced.settle({ ok: false, refusal });
      }
      return wait(asked, line);
    },
    waiting: (workload_id) => lines.get(workload_id)?.queue.size() ?? 0,
  };
}

/** When those who wait now have probably had their turn, in whole seconds. */
function retryOf({ pace, queue, capacity }: Line): number {
  const wait_ms = (pace.mean_ms() * queue.size()) / Math.max(1, capacity());
  return Math.min(60, Math.max(1, Math.ceil(wait_ms / 1000)));
}

function full(retry_after_s: number): Refusal {
  return {
    status: 429,
    message: 'Too many requests wait for this model already.',
    type: 'requests',
    code: 'queue_full',
    retry_after_s,
  };
}

function tooLate(retry_after_s: number): Refusal {
  return {
    status: 503,
    message: `No engine of this model was free within ${limits.turn_wait_ms / 1000} s.`,
    code: 'no_free_slot',
    retry_after_s,
  };
}
