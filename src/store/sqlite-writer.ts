/**
 * The main thread's side of the writing worker.
 *
 * Invariants: when the worker ends, what was on its way is `outcome_unknown` and what still waited
 * is `store_failing`, for it never began.
 */
import { Worker } from 'node:worker_threads';
import type { Log } from '../lib/log.ts';
import type { Job, Outcome } from './batch.ts';
import { createCalls, failing, unknown } from './calls.ts';
import { DatabaseError } from './database-error.ts';
import { MigrationError, type MigrationErrorCode } from './migrate.ts';
import { StoreError } from './sql.ts';

/** What the worker is started with. */
export type WriterData = {
  path: string;
  transactions_url: string;
  now: number;
  page_limit: number | null;
  /** Looks for damage before anything else. */
  check: boolean;
};
export type ToWriter = { kind: 'batch'; jobs: Job[] } | { kind: 'close' };
export type FromWriter =
  | { kind: 'ready'; from: number; to: number }
  | { kind: 'refused'; failure: StartFailure }
  | { kind: 'done'; outcomes: Outcome[] }
  | { kind: 'stray'; message: string }
  | { kind: 'broken'; message: string };
export type StartFailure = {
  code: MigrationErrorCode | 'store_damaged' | 'failed';
  message: string;
  details: Record<string, string | number>;
};

export type Writer = {
  transact(name: string, args: unknown): Promise<unknown>;
  readonly failed: Promise<StoreError>;
  close(): Promise<void>;
};

const batch_limit = 256;

/** Resolves once the schema is up to date and writes are taken. */
export async function startWriter(data: WriterData, log: Log): Promise<Writer> {
  const url = new URL('./sqlite-worker.ts', import.meta.url);
  const worker = new Worker(url, { workerData: data, name: 'store', execArgv: [] });
  const send = (message: ToWriter) => worker.postMessage(message);
  const calls = createCalls(batch_limit, (jobs) => send({ kind: 'batch', jobs }));
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

function startError({ code, message, details }: StartFailure): Error {
  if (code === 'failed') return new StoreError('store_failing', message);
  if (code === 'store_damaged') return new DatabaseError(code, message, { why: message });
  return new MigrationError(code, message, details);
}
