/**
 * The main thread's side of the writing worker: what waits, what is on its way, what is answered.
 *
 * Invariants: one batch is on its way at a time, and what is asked for meanwhile makes the next;
 * each call settles exactly once; when the worker ends, what was on its way is `outcome_unknown`
 * and what still waited is `store_failing`, for it never began. The queue is bounded.
 */
import { Worker } from 'node:worker_threads';
import type { Log } from '../lib/log.ts';
import { decode, encode, errorOf, type Job, type Outcome } from './batch.ts';
import { MigrationError, type MigrationErrorCode } from './migrate.ts';
import { StoreError } from './sql.ts';

/** What the worker is started with. */
export type WriterData = {
  path: string;
  transactions_url: string;
  now: number;
  page_limit: number | null;
};
export type ToWriter = { kind: 'batch'; jobs: Job[] } | { kind: 'close' };
export type FromWriter =
  | { kind: 'ready'; from: number; to: number }
  | { kind: 'refused'; failure: StartFailure }
  | { kind: 'done'; outcomes: Outcome[] }
  | { kind: 'stray'; message: string }
  | { kind: 'broken'; message: string };
export type StartFailure = {
  code: MigrationErrorCode | 'failed';
  message: string;
  details: Record<string, string | number>;
};

export type Writer = {
  transact(name: string, args: unknown): Promise<unknown>;
  readonly failed: Promise<StoreError>;
  close(): Promise<void>;
};

const batch_limit = 256;
const queue_limit = 10_000;

type Call = { job: Job; resolve: (value: unknown) => void; reject: (error: Error) => void };

/** Resolves once the schema is up to date and writes are taken. */
export async function startWriter(data: WriterData, log: Log): Promise<Writer> {
  const url = new URL('./sqlite-worker.ts', import.meta.url);
  const worker = new Worker(url, { workerData: data, name: 'store', execArgv: [] });
  const send = (message: ToWriter) => worker.postMessage(message);
  const calls = createCalls((jobs) => send({ kind: 'batch', jobs }));
  const ready = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<StoreError>();
  const exited = Promise.withResolvers<void>();
  let closing = false;

  function breakDown(why: string): void {
    if (!calls.abandon(why)) return;
    log.error({ why }, 'the store failed');
    ready.reject(failing(why));
    failed.resolve(unknown(why));
  }

  worker.on('message', (message: FromWriter) => {
    if (message.kind === 'done') calls.finish(message.outcomes);
    else if (message.kind === 'ready') {
      log.debug({ from: message.from, to: message.to }, 'the store is open');
      ready.resolve();
    } else if (message.kind === 'refused') ready.reject(startError(message.failure));
    else if (message.kind === 'stray') {
      log.warn({ why: message.message }, 'a transaction left a promise that rejected');
    } else breakDown(message.message);
  });
  worker.on('error', (error) => breakDown(error instanceof Error ? error.message : String(error)));
  worker.on('exit', (code) => {
    if (!closing) breakDown(`its worker ended (${code})`);
    exited.resolve();
  });

  async function close(): Promise<void> {
    if (closing) return exited.promise;
    await calls.drain();
    closing = true;
    send({ kind: 'close' });
    await exited.promise;
  }

  try {
    await ready.promise;
  } catch (error) {
    closing = true;
    await worker.terminate();
    throw error;
  }
  return { transact: calls.add, failed: failed.promise, close };
}

type Calls = {
  add(name: string, args: unknown): Promise<unknown>;
  finish(outcomes: readonly Outcome[]): void;
  /** Settles all calls after the worker was lost; false when that was done before. */
  abandon(why: string): boolean;
  /** Takes no more calls, and resolves when those taken have settled. */
  drain(): Promise<void>;
};

function createCalls(send: (jobs: Job[]) => void): Calls {
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
      for (const [index, call] of answered.entries()) {
        const outcome = outcomes[index];
        if (!outcome) call.reject(unknown('the worker gave no answer'));
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

function unknown(why: string): StoreError {
  return new StoreError('outcome_unknown', `the store failed, and may have done it or not: ${why}`);
}

function failing(why: string): StoreError {
  return new StoreError('store_failing', `the store takes no writes: ${why}`);
}

function startError({ code, message, details }: StartFailure): Error {
  return code === 'failed'
    ? new StoreError('store_failing', message)
    : new MigrationError(code, message, details);
}
