/**
 * How many durable launches the store takes, beside the disk's own fsync and a bare worker.
 *
 * Each figure is of calls that resolved, so of transactions that are on disk. `ratio_sqlite` is the
 * store against a worker that batches alike and checks nothing (1 is as fast; both at 64 callers,
 * the two taking turns, the median of each).
 */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';
import { systemClock } from '../src/lib/clock.ts';
import { openSqliteStore } from '../src/store/sqlite.ts';
import { type Launch, transactions } from './store-transactions.ts';

type Target = { launch(args: Launch): Promise<unknown>; close(): Promise<void> };
type Measured = { per_s: number; loop_delay_p99_ms: number };

export async function bench({ quick }: { quick: boolean }) {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  const ms = quick ? 700 : 3000;
  const rounds = quick ? 3 : 5;
  try {
    const fsync_ms = measureFsync(join(folder, 'fsync'));
    const store = await openStore(folder);
    const bare = await openBare(join(folder, 'bare.db'));
    await measure(store, 64, 300);
    await measure(bare, 64, 300);
    const alone = await measure(store, 1, ms);
    const sixteen = await measure(store, 16, ms);
    const stores: Measured[] = [];
    const bares: Measured[] = [];
    for (let round = 0; round < rounds; round += 1) {
      stores.push(await measure(store, 64, ms));
      bares.push(await measure(bare, 64, ms));
    }
    await store.close();
    await bare.close();
    const store_per_s = median(stores.map((one) => one.per_s));
    const bare_per_s = median(bares.map((one) => one.per_s));
    return {
      fsync_ms,
      commits_per_s_sqlite: Math.round(alone.per_s),
      launches_per_s_sqlite_16: Math.round(sixteen.per_s),
      launches_per_s_sqlite: Math.round(store_per_s),
      launches_per_s_bare: Math.round(bare_per_s),
      ratio_sqlite: rounded(store_per_s / bare_per_s),
      loop_delay_p99_ms: rounded(median(stores.map((one) => one.loop_delay_p99_ms))),
      launches_per_s_postgres: null,
      ratio_postgres: null,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

let next_id = 0;

/** `callers` that each ask again as soon as they are answered, for `ms`. */
async function measure(target: Target, callers: number, ms: number): Promise<Measured> {
  const resolution = 1;
  const delay = monitorEventLoopDelay({ resolution });
  delay.enable();
  const started = systemClock.monotonic();
  let done = 0;
  const caller = async () => {
    while (systemClock.monotonic() - started < ms) {
      next_id += 1;
      await target.launch({ id: `launch-${next_id}`, now: next_id });
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const elapsed = systemClock.monotonic() - started;
  delay.disable();
  const p99_ms = delay.percentile(99) / 1e6 - resolution;
  return { per_s: (done * 1000) / elapsed, loop_delay_p99_ms: Math.max(0, p99_ms) };
}

async function openStore(folder: string): Promise<Target> {
  const transactions_url = new URL('./store-transactions.ts', import.meta.url).href;
  const store = await openSqliteStore({ folder, transactions_url, transactions });
  return { launch: (args) => store.transact('launch', args), close: store.close };
}

/** Batches as the store does: what is asked for while one batch is under way makes the next. */
async function openBare(path: string): Promise<Target> {
  const worker = new Worker(new URL('./store-bare-worker.ts', import.meta.url), {
    workerData: { path },
  });
  type Call = { args: Launch; resolve: (value: unknown) => void };
  let waiting: Call[] = [];
  let under_way: Call[] = [];
  let due = false;
  const ready = Promise.withResolvers<void>();
  const flushSoon = () => {
    if (due || under_way.length > 0 || waiting.length === 0) return;
    due = true;
    queueMicrotask(() => process.nextTick(flush));
  };
  const flush = () => {
    due = false;
    under_way = waiting;
    waiting = [];
    worker.postMessage(under_way.map((call) => call.args));
  };
  worker.on('message', (answers: unknown[] | 'ready') => {
    if (answers === 'ready') return ready.resolve();
    for (const [index, call] of under_way.entries()) call.resolve(answers[index]);
    under_way = [];
    flushSoon();
  });
  await ready.promise;
  return {
    launch: (args) =>
      new Promise((resolve) => {
        waiting.push({ args, resolve });
        flushSoon();
      }),
    close: () =>
      new Promise((resolve) => {
        worker.once('exit', () => resolve());
        worker.postMessage('close');
      }),
  };
}

/** The median time to have 4 KiB more on this disk. */
function measureFsync(path: string): number {
  const file = openSync(path, 'w');
  const page = Buffer.alloc(4096, 1);
  const times = Array.from({ length: 100 }, () => {
    const started = systemClock.monotonic();
    writeSync(file, page);
    fdatasyncSync(file);
    return systemClock.monotonic() - started;
  });
  closeSync(file);
  return rounded(median(times));
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
