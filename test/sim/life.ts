/**
 * One life of a process: everything that it can do goes through here, so that it can be killed at
 * any of those calls.
 *
 * Invariants: nothing that a dead process asks for happens, and no promise of its settles; a call
 * is cut before its effect, or after the effect and before the answer.
 */
import type { Clock } from '../../src/lib/clock.ts';
import type { Host } from './host.ts';

/** Ends the synchronous part of what runs in a process that has just died. */
export class Died extends Error {}

export type Moment = 'before' | 'after';

export type Life = {
  readonly name: string;
  isAlive(): boolean;
  kill(why: string): void;
  /** Dies at the `calls`-th call from now. */
  arm(calls: number, moment: Moment): void;
  /** A call with an effect, or the answer to a question. */
  async<T>(call: string, effect: () => Promise<T>): Promise<T>;
  sync<T>(call: string, effect: () => T): T;
  /** A call without an effect, at which it may die like at any other and need not stop at once. */
  glance<T>(call: string, effect: () => T): T;
  /** Hands something to the process from outside, unless it is dead. */
  deliver(work: () => void): void;
};

type State = {
  name: string;
  alive: boolean;
  armed: { left: number; moment: Moment } | null;
  onDeath: (why: string) => void;
};

export function createLife(name: string, onDeath: (why: string) => void): Life {
  const state: State = { name, alive: true, armed: null, onDeath };
  return {
    name,
    isAlive: () => state.alive,
    kill: (why) => kill(state, why),
    arm: (calls, moment) => {
      state.armed = { left: calls, moment };
    },
    async: (call, effect) => answer(state, call, effect),
    sync: (call, effect) => doNow(state, call, effect),
    glance(call, effect) {
      if (state.alive && momentOf(state) !== null) kill(state, `at ${call}`);
      return effect();
    },
    deliver(work) {
      if (!state.alive) return;
      try {
        work();
      } catch (error) {
        if (!(error instanceof Died)) throw error;
      }
    },
  };
}

function kill(state: State, why: string): void {
  if (!state.alive) return;
  state.alive = false;
  state.onDeath(why);
}

/** When the process dies at this call, or null. */
function momentOf({ armed }: State): Moment | null {
  if (armed === null) return null;
  armed.left -= 1;
  return armed.left > 0 ? null : armed.moment;
}

function answer<T>(state: State, call: string, effect: () => Promise<T>): Promise<T> {
  if (!state.alive) return never();
  if (state.armed !== null) return answerArmed(state, call, effect);
  return effect().then(
    (value) => (state.alive ? value : never()),
    (error: unknown) => {
      if (state.alive) throw error;
      return never();
    },
  );
}

async function answerArmed<T>(state: State, call: string, effect: () => Promise<T>): Promise<T> {
  const moment = momentOf(state);
  if (moment === 'before') {
    kill(state, `before ${call}`);
    return never();
  }
  try {
    const value = await effect();
    if (moment === 'after') kill(state, `after ${call}`);
    return state.alive ? value : never();
  } catch (error) {
    if (moment === 'after') kill(state, `after ${call}`);
    if (!state.alive) return never();
    throw error;
  }
}

function doNow<T>(state: State, call: string, effect: () => T): T {
  if (!state.alive) throw new Died(state.name);
  const moment = momentOf(state);
  if (moment === 'before') {
    kill(state, `before ${call}`);
    throw new Died(state.name);
  }
  const value = effect();
  if (moment === 'after') {
    kill(state, `after ${call}`);
    throw new Died(state.name);
  }
  return value;
}

/** The clock of a process on a host. Its timers die with it. */
export function clockOf(host: Host, life: Life): Clock {
  const after = (ms: number, fire: () => void) => host.after(ms, () => life.deliver(fire));
  return {
    now: () => life.glance('clock.now', host.now),
    monotonic: () => life.glance('clock.monotonic', host.monotonic),
    after: (ms, fire) => life.glance('clock.after', () => after(ms, fire)),
    sleep: (ms, signal) => life.async('clock.sleep', () => sleep(after, ms, signal)),
  };
}

function sleep(
  after: (ms: number, fire: () => void) => () => void,
  ms: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = after(ms, done);
    signal?.addEventListener('abort', done);
  });
}

/** Another one each time: what waits for it can be forgotten with it. */
function never(): Promise<never> {
  return new Promise(() => {});
}
