/**
 * The line before one endpoint's slots.
 *
 * Invariants: a freed slot goes at once to the key that was served longest ago, and inside a key to
 * who came first; never more are at work than there is room for, unless that shrank meanwhile; a
 * full line makes room for a key that waits less at the cost of the one that waits most; who gave
 * up or ran out of time leaves nothing behind.
 */
import { limits } from '../../contract/limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Refusal, refusals } from '../errors.ts';
import type { Standing, Turn, Turns } from '../limiter.ts';
import { createPace } from './pace.ts';
import { createTurnQueue } from './turn-queue.ts';

export type TurnClock = Pick<Clock, 'monotonic' | 'after'>;
export type Enter = Omit<Parameters<Turns['enter']>[0], 'workload_id'>;

export type TurnLine = {
  /** Nothing must have stopped it. */
  enter(asked: Enter): Turn | Promise<Turn>;
  standing(): Omit<Standing, 'workload_id'>[];
};

export type TurnLineOptions = {
  clock: TurnClock;
  /** How many may wait. */
  waiting: number;
  /** Nothing is at work and nothing waits. */
  onIdle(): void;
};

export function createTurnLine({ clock, waiting, onIdle }: TurnLineOptions): TurnLine {
  const queue = createTurnQueue<Waiter>();
  const pace = createPace();
  const work = createWork();
  let stopLooking = () => {};

  /** Gives turns as long as there is room, and looks again: a replica may come up by itself. */
  function serve(): void {
    for (let first = queue.first(); first !== undefined; first = queue.first()) {
      if (work.size() >= first.capacity()) break;
      queue.next()?.settle(turnOf(first.key_id));
    }
    stopLooking();
    stopLooking = queue.size() === 0 ? () => {} : clock.after(limits.turn_look_ms, serve);
    if (queue.size() === 0 && work.size() === 0) onIdle();
  }

  function turnOf(key_id: string): Turn {
    const end = work.begin(key_id);
    const began_ms = clock.monotonic();
    let has_left = false;
    const leave = () => {
      if (has_left) return;
      has_left = true;
      end();
      pace.took(clock.monotonic() - began_ms);
      serve();
    };
    return { ok: true, leave };
  }

  function wait(asked: Enter): Promise<Turn> {
    const { waiter, turn } = openWaiter(asked, clock, (is_late) => {
      queue.remove(asked.key_id, waiter);
      waiter.settle({
        ok: false,
        refusal: is_late ? tooLate(retry_s(asked)) : refusals.shuttingDown,
      });
      serve();
    });
    queue.add(asked.key_id, waiter);
    serve();
    return turn;
  }

  /** When those who wait now have probably had their turn, in whole seconds. */
  function retry_s({ capacity }: Enter): number {
    const wait_ms = (pace.mean_ms() * queue.size()) / Math.max(1, capacity());
    return Math.min(60, Math.max(1, Math.ceil(wait_ms / 1000)));
  }

  return {
    enter(asked) {
      if (queue.size() === 0 && work.size() < asked.capacity()) return turnOf(asked.key_id);
      if (queue.size() >= waiting) {
        const refused: Turn = { ok: false, refusal: full(retry_s(asked)) };
        const displaced = queue.displace(asked.key_id);
        if (displaced === undefined) return refused;
        displaced.settle(refused);
      }
      return wait(asked);
    },
    standing: () => standingOf(work.of_keys, queue.waiting()),
  };
}

/** `capacity` is its own: a guest may go to fewer replicas than their owner. */
type Waiter = { key_id: string; capacity(): number; settle(turn: Turn): void };

/** Who waits, at the latest until the deadline or until it is stopped: then `onGone` is called. */
function openWaiter(
  { key_id, capacity, stop }: Enter,
  clock: TurnClock,
  onGone: (is_late: boolean) => void,
): { waiter: Waiter; turn: Promise<Turn> } {
  const { promise: turn, resolve } = Promise.withResolvers<Turn>();
  const giveUp = () => onGone(false);
  const cancel = clock.after(limits.turn_wait_ms, () => onGone(true));
  const undo = stop.on(giveUp);
  const settle = (settled: Turn) => {
    cancel();
    undo();
    resolve(settled);
  };
  return { waiter: { key_id, capacity, settle }, turn };
}

/** Who is at work. */
function createWork() {
  const of_keys = new Map<string, number>();
  let size = 0;
  const count = (key_id: string, more: 1 | -1) => {
    size += more;
    const of_key = (of_keys.get(key_id) ?? 0) + more;
    if (of_key > 0) of_keys.set(key_id, of_key);
    else of_keys.delete(key_id);
  };
  return {
    of_keys,
    size: () => size,
    begin(key_id: string): () => void {
      count(key_id, 1);
      return () => count(key_id, -1);
    },
  };
}

function standingOf(at_work: Map<string, number>, waiting: Map<string, number>) {
  return [...new Set([...at_work.keys(), ...waiting.keys()])].map((key_id) => ({
    ...{ key_id, at_work: at_work.get(key_id) ?? 0, waiting: waiting.get(key_id) ?? 0 },
  }));
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
