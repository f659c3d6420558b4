/**
 * Calls of transactions on their way to an engine: what waits, what is under way, what is answered.
 *
 * Invariants: one batch is under way at a time, and what is asked for meanwhile makes the next;
 * each call settles exactly once; the queue is bounded.
 */
import { decode, encode, errorOf, type Job, type Outcome } from './batch.ts';
import { StoreError } from './sql.ts';

const queue_limit = 10_000;

type Call = { job: Job; resolve: (value: unknown) => void; reject: (error: Error) => void };

export type Calls = {
  add(name: string, args: unknown): Promise<unknown>;
  finish(outcomes: readonly Outcome[]): void;
  /** Settles all calls after the worker was lost; false when that was done before. */
  abandon(why: string): boolean;
  /** Takes no more calls, and resolves when those taken have settled. */
  drain(): Promise<void>;
};

/** `send` is given at most `batch_limit` calls, and must lead to `finish` or `abandon`. */
export function createCalls(batch_limit: number, send: (jobs: Job[]) => void): Calls {
  let waiting: Call[] = [];
  let under_way: Call[] = [];
  let flush_due = false;
  let refusal: string | null = null;
  let lost = false;
  const settled = Promise.withResolvers<void>();

  /** Sends what waits once nobody in this turn has more to ask for. */
  function flushSoon(): void {
    if (flush_due || under_way.length > 0 || waiting.length === 0) return;
    flush_due = true;
    queueMicrotask(() => process.nextTick(flush));
  }

  function flush(): void {
    flush_due = false;
    if (lost) return;
    under_way = waiting.splice(0, batch_limit);
    send(under_way.map((call) => call.job));
  }

  function settleIfIdle(): void {
    if (refusal !== null && under_way.length + waiting.length === 0) settled.resolve();
  }

  return {
    add: (name, args) => {
      if (refusal !== null) return Promise.reject(failing(refusal));
      if (waiting.length >= queue_limit) return Promise.reject(failing('too many writes wait'));
      const call = Promise.withResolvers<unknown>();
      waiting.push({ job: { name, args: encode(args) }, ...call });
      flushSoon();
      return call.promise;
    },
    finish: (outcomes) => {
      const answered = under_way;
      under_way = [];
      // What waits already goes at once: the engine works on it while these are told.
      if (waiting.length > 0) flush();
      for (const [index, call] of answered.entries()) {
        const outcome = outcomes[index];
        if (!outcome) call.reject(unknown('the engine gave no answer'));
        else if (outcome.ok) call.resolve(decode(outcome.result));
        else call.reject(errorOf(outcome.failure));
      }
      flushSoon();
      settleIfIdle();
    },
    abandon: (why) => {
      if (lost) return false;
      lost = true;
      refusal = why;
      for (const call of under_way) call.reject(unknown(why));
      for (const call of waiting) call.reject(failing(why));
      under_way = [];
      waiting = [];
      settled.resolve();
      return true;
    },
    drain: () => {
      refusal ??= 'it is closed';
      settleIfIdle();
      return settled.promise;
    },
  };
}

export function unknown(why: string): StoreError {
  return new StoreError('outcome_unknown', `the store failed, and may have done it or not: ${why}`);
}

export function failing(why: string): StoreError {
  return new StoreError('store_failing', `the store takes no writes: ${why}`);
}
