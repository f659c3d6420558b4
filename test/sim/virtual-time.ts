/**
 * Virtual time: a heap of timers, and one thread of which everything has run before the next one
 * fires.
 *
 * Invariants: timers fire in the order of their times, then of their making; time stands still
 * while something runs. What waits for no timer needs only microtasks, and these all run before the
 * next timer fires.
 */
export type Cancel = () => void;

export type VirtualTime = {
  /** Milliseconds since the story began. */
  now(): number;
  at(due_ms: number, fire: () => void): Cancel;
  /** Fires all that is due by then, each followed by `after`, which says whether to go on. */
  run(until_ms: number, after: () => boolean): Promise<void>;
  /** How many timers have fired. */
  fired(): number;
};

/** How many timers fire between two turns of the event loop. */
const turn_every = 64;

type Timer = { due: number; order: number; fire: (() => void) | null };

export function createVirtualTime(): VirtualTime {
  const heap: Timer[] = [];
  let now = 0;
  let order = 0;
  let fired = 0;

  /** Moves to the next timer that is due by then, and takes it; null where none is. */
  function takeDue(until_ms: number): (() => void) | null {
    for (let next = heap[0]; next !== undefined && next.due <= until_ms; next = heap[0]) {
      pop(heap);
      const { fire } = next;
      if (fire === null) continue;
      now = next.due;
      fired += 1;
      next.fire = null;
      return fire;
    }
    now = until_ms;
    return null;
  }

  return {
    now: () => now,
    fired: () => fired,
    at(due_ms, fire) {
      order += 1;
      const timer: Timer = { due: Math.max(now, due_ms), order, fire };
      push(heap, timer);
      return () => {
        timer.fire = null;
      };
    },
    async run(until_ms, after) {
      await settled();
      await new Promise<void>((resolve, reject) => {
        const step = () => {
          const fire = takeDue(until_ms);
          if (fire === null) return resolve();
          fire();
          if (fired % turn_every === 0) setImmediate(goOn);
          else queueMicrotask(tickLater);
        };
        // A tick that is asked for by a microtask comes when none is left: a tenth of the cost of a
        // turn of the event loop, where rejections that nobody handles are told.
        const tickLater = () => process.nextTick(goOn);
        const goOn = () => {
          try {
            if (after()) step();
            else resolve();
          } catch (error) {
            reject(error);
          }
        };
        step();
      });
    },
  };
}

/** Resolves when everything that waits for no timer has run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function isBefore(a: Timer, b: Timer): boolean {
  return a.due < b.due || (a.due === b.due && a.order < b.order);
}

function push(heap: Timer[], timer: Timer): void {
  let at = heap.push(timer) - 1;
  while (at > 0) {
    const above = (at - 1) >> 1;
    const parent = heap[above];
    if (parent === undefined || !isBefore(timer, parent)) break;
    heap[at] = parent;
    at = above;
  }
  heap[at] = timer;
}

function pop(heap: Timer[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let at = 0;
  for (;;) {
    const left = heap[2 * at + 1];
    const right = heap[2 * at + 2];
    if (left === undefined) break;
    const is_right = right !== undefined && isBefore(right, left);
    const child = is_right ? right : left;
    if (!isBefore(child, last)) break;
    heap[at] = child;
    at = 2 * at + (is_right ? 2 : 1);
  }
  heap[at] = last;
}
