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

export function createLife(name: string, onDeath: (why: string) => void): Life {
  let alive = true;
  let armed: { left: number; moment: Moment } | null = null;

  function kill(why: string): void {
    if (!alive) return;
    alive = false;
    onDeath(why);
  }

  /** When the process dies at this call, or null. */
  function momentOf(): Moment | null {
    if (armed === null) return null;
    armed.left -= 1;
    return armed.left > 0 ? null : armed.moment;
  }

  function answer<T>(call: string, effect: () => Promise<T>): Promise<T> {
    if (!alive) return never();
    if (armed !== null) return answerArmed(call, effect);
    return effect().then(
      (value) => (alive ? value : never()),
      (error: unknown) => {
        if (alive) throw error;
        return never();
      },
    );
  }

  async function answerArmed<T>(call: string, effect: () => Promise<T>): Promise<T> {
    const moment = momentOf();
    if (moment === 'before') {
      kill(`before ${call}`);
      return never();
    }
    try {
      const value = await effect();
      if (moment === 'after') kill(`after ${call}`);
      return alive ? value : never();
    } catch (error) {
      if (moment === 'after') kill(`after ${call}`);
      if (!alive) return never();
      throw error;
    }
  }

  function now<T>(call: string, effect: () => T): T {
    if (!alive) throw new Died(name);
    const moment = momentOf();
    if (moment === 'before') {
      kill(`before ${call}`);
      throw new Died(name);
    }
    const value = effect();
    if (moment === 'after') {
      kill(`after ${call}`);
      throw new Died(name);
    }
    return value;
  }

  return {
    name,
    isAlive: () => alive,
    kill,
    arm: (calls, moment) => {
      armed = { left: calls, moment };
    },
    async: answer,
    sync: now,
    glance(call, effect) {
      if (alive && momentOf() !== null) kill(`at ${call}`);
      return effect();
    },
    deliver(work) {
      if (!alive) return;
      try {
        work();
      } catch (error) {
        if (!(error instanceof Died)) throw error;
      }
    },
  };
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
