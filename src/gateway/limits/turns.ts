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
import type { Standing, Turns } from '../limiter.ts';
import { createPace, type Pace } from './pace.ts';
import { createTurnQueue, type TurnQueue } from './turn-queue.ts';

type Enter = Parameters<Turns['enter']>[0];
type Turn = Awaited<ReturnType<Turns['enter']>>;
type Waiter = { key_id: string; settle(turn: Turn): void };

/** `capacity` is that of who came last: the newest knowledge of it. */
type Line = {
  queue: TurnQueue<Waiter>;
  at_work: number;
  at_work_of: Map<string, number>;
  pace: Pace;
  capacity(): number;
  stopLooking(): void;
};

export type TurnsOptions = { clock: Pick<Clock, 'monotonic' | 'after'>; waiting?: number };

export function createTurns({ clock, waiting = limits.turns_waiting }: TurnsOptions): Turns {
  const lines = new Map<string, Line>();

  function lineOf({ workload_id, capacity }: Enter): Line {
    const known = lines.get(workload_id);
    if (known !== undefined) {
      known.capacity = capacity;
      return known;
    }
    const made = { queue: createTurnQueue<Waiter>(), at_work: 0, pace: createPace() };
    const line: Line = { ...made, at_work_of: new Map(), capacity, stopLooking: () => {} };
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
      const waiter = line.queue.next();
      waiter?.settle(turnIn(workload_id, line, waiter.key_id));
    }
    watch(workload_id, line);
  }

  function turnIn(workload_id: string, line: Line, key_id: string): Turn {
    count(line, key_id, 1);
    const began_ms = clock.monotonic();
    let has_left = false;
    return {
      ok: true,
      leave() {
        if (has_left) return;
        has_left = true;
        count(line, key_id, -1);
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
      const waiter = { key_id, settle };
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
        return turnIn(asked.workload_id, line, asked.key_id);
      }
      if (queue.size() >= waiting) {
        const refusal = full(retryOf(line));
        const displaced = queue.displace(asked.key_id);
        if (displaced === undefined) return { ok: false, refusal };
        displaced.settle({ ok: false, refusal });
      }
      return wait(asked, line);
    },
    standing: () => [...lines].flatMap(([workload_id, line]) => standingOf(workload_id, line)),
  };
}

function count(line: Line, key_id: string, more: 1 | -1): void {
  line.at_work += more;
  const of_key = (line.at_work_of.get(key_id) ?? 0) + more;
  if (of_key > 0) line.at_work_of.set(key_id, of_key);
  else line.at_work_of.delete(key_id);
}

function standingOf(workload_id: string, { queue, at_work_of }: Line): Standing[] {
  const waiting = queue.waiting();
  return [...new Set([...at_work_of.keys(), ...waiting.keys()])].map((key_id) => ({
    ...{ workload_id, key_id, at_work: at_work_of.get(key_id) ?? 0 },
    waiting: waiting.get(key_id) ?? 0,
  }));
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
