/**
 * How many durable launches the store takes, beside the disk's own fsync and
 * bare peers.
 *
 * Each figure is of calls that resolved, so of transactions that are on disk. `ratio_sqlite` is the
 * store against a worker that batches alike and checks nothing, `ratio_postgres` against a client
 * that does (1 is as fast; both at 64 callers, the two taking turns, the median of each).
 */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { systemClock } from '../src/lib/clock.ts';
import { findPostgres, startCluster } from '../test/lib/postgres.ts';
import { median, rounded } from './figures.ts';
import {
  openBare,
  openBareOnPostgres,
  openStore,
  openStoreOnPostgres,
  type Target,
} from './store-targets.ts';

type Measured = { per_s: number; loop_delay_p99_ms: number };
type Pace = { ms: number; rounds: number };

export async function bench({ quick }: { quick: boolean }) {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  const pace = { ms: quick ? 700 : 3000, rounds: quick ? 3 : 5 };
  try {
    const fsync_ms = measureFsync(join(folder, 'fsync'));
    const sqlite = await compare(await openStore(folder), await openBare(folder), pace);
    const postgres = await onPostgres(folder, pace);
    const loop_delays = [sqlite.loop_delay_p99_ms, postgres?.loop_delay_p99_ms ?? 0];
    const keys = {
      fsync_ms,
      commits_per_s_sqlite: sqlite.alone_per_s,
      launches_per_s_sqlite_16: sqlite.sixteen_per_s,
      launches_per_s_sqlite: sqlite.store_per_s,
      launches_per_s_bare: sqlite.bare_per_s,
      ratio_sqlite: sqlite.ratio,
      spread_sqlite: sqlite.spread,
      commits_per_s_postgres: postgres?.alone_per_s ?? null,
      launches_per_s_postgres_16: postgres?.sixteen_per_s ?? null,
      launches_per_s_postgres: postgres?.store_per_s ?? null,
      launches_per_s_bare_postgres: postgres?.bare_per_s ?? null,
      ratio_postgres: postgres?.ratio ?? null,
      spread_postgres: postgres?.spread ?? null,
      loop_delay_p99_ms: Math.max(...loop_delays),
    };
    for (const [name, value] of Object.entries(keys)) {
      console.log(`${name.padEnd(30)}${typeof value === 'object' ? JSON.stringify(value) : value}`);
    }
    return keys;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Null where the machine has no Postgres, or only root to run it. */
async function onPostgres(folder: string, pace: Pace) {
  if (findPostgres() === null) return null;
  const server = await startCluster({ durable: true });
  try {
    const store = await openStoreOnPostgres(server.folder, folder);
    return await compare(store, await openBareOnPostgres(server.folder), pace);
  } finally {
    await server.stop();
  }
}

/** The store and its bare peer in turns. Closes both. */
async function compare(store: Target, bare: Target, { ms, rounds }: Pace) {
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
  const per_s = (all: Measured[]) => median(all.map((one) => one.per_s));
  const spread = (all: Measured[]) =>
    [Math.min, Math.max].map((end) => Math.round(end(...all.map((one) => one.per_s))));
  return {
    alone_per_s: Math.round(alone.per_s),
    sixteen_per_s: Math.round(sixteen.per_s),
    store_per_s: Math.round(per_s(stores)),
    bare_per_s: Math.round(per_s(bares)),
    ratio: rounded(per_s(stores) / per_s(bares)),
    spread: { store: spread(stores), bare: spread(bares) },
    loop_delay_p99_ms: rounded(median(stores.map((one) => one.loop_delay_p99_ms))),
  };
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
