/**
 * Admission: how long a pass over a long queue works, and how many launches a second the API takes
 * while one waits, beside the least that could take them.
 *
 * Invariants: product and bare server take turns, each time on a fresh copy of the same data; every
 * figure of launches is of answered ones, so of launches that are on disk. How long one takes and
 * how late the loop is are measured at a steady pace (`pace_per_s`): half of the most that this
 * machine takes, and 1,000 a second where that is more; at the most that it takes any queue grows.
 * The bare server is given the same pace.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { startSystem } from '../src/controlplane/system.ts';
import { systemClock } from '../src/lib/clock.ts';
import { openLog } from '../src/lib/log.ts';
import { systemRandom } from '../src/lib/random.ts';
import { recordLaunch, serveBare } from './admit-bare.ts';
import { addMachines, launchMany, openFilled, settle, type Who } from './admit-fill.ts';
import { type Load, type Loaded, type Loader, openLoader } from './admit-load.ts';
import { benchPasses } from './admit-pass.ts';
import { median, rounded } from './figures.ts';

const connections = 64;
/** Enough for the compiler to have seen everything often. */
const warm_up = { ms: 10_000, most: 4000, tag: 'warm' };
/** What must be taken in good time for long, by a machine that can take twice as many. */
const highest_pace_per_s = 1000;
type Measured = Loaded & { paced: Loaded; pace_per_s: number; loop_delay_p99_ms: number };

export async function bench({ quick }: { quick: boolean }) {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  const ms = quick ? 800 : 3000;
  const rounds = quick ? 2 : 5;
  const size = { waiting: quick ? 2000 : 10_000, machines: quick ? 200 : 1000 };
  try {
    const passes = await benchPasses(folder, { ...size, passes: quick ? 3 : 9 });
    const full = join(folder, 'full');
    const who = await fill(full, size);
    const statements = await recordLaunch(who);
    const products: Measured[] = [];
    const bares: Measured[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const product = await onCopy(full, (copy) => loadProduct(copy, ms));
      products.push(product);
      const { pace_per_s } = product;
      bares.push(await onCopy(full, (copy) => loadBare(copy, statements, ms, pace_per_s)));
    }
    const per_s = products.map((one) => one.per_s);
    const bare_per_s = bares.map((one) => one.per_s);
    const keys = {
      pass_10k_ms: quick ? null : rounded(median(passes.passes_ms)),
      pass_ms: passes.passes_ms.map((ms) => rounded(ms)),
      pass_cpu_ms: rounded(passes.cpu_ms),
      first_pass_ms: rounded(passes.first_pass_ms),
      longest_slice_ms: rounded(passes.longest_slice_ms),
      waiting: passes.waiting,
      machines: size.machines,
      launches_per_s: Math.round(median(per_s)),
      launches_per_s_spread: per_s.map(Math.round),
      launches_per_s_bare: Math.round(median(bare_per_s)),
      launches_per_s_bare_spread: bare_per_s.map(Math.round),
      launches_vs_bare: rounded(median(per_s.map((one, round) => one / (bare_per_s[round] ?? 1)))),
      pace_per_s: Math.round(median(products.map((one) => one.pace_per_s))),
      launch_p50_ms: rounded(median(products.map(({ paced }) => paced.p50_ms))),
      launch_p99_ms: rounded(median(products.map(({ paced }) => paced.p99_ms))),
      launch_p99_ms_at_most_load: rounded(median(products.map((one) => one.p99_ms))),
      bare_p99_ms: rounded(median(bares.map(({ paced }) => paced.p99_ms))),
      bare_p99_ms_at_most_load: rounded(median(bares.map((one) => one.p99_ms))),
      loop_delay_p99_ms: rounded(median(products.map((one) => one.loop_delay_p99_ms))),
      bare_loop_delay_p99_ms: rounded(median(bares.map((one) => one.loop_delay_p99_ms))),
      failed: [...products, ...bares].reduce((sum, one) => sum + one.failed + one.paced.failed, 0),
      rounds,
    };
    for (const [name, value] of Object.entries(keys)) console.log(`${name.padEnd(24)}${value}`);
    return keys;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A deployment with a queue for which no machine is large enough. */
async function fill(folder: string, size: { waiting: number; machines: number }): Promise<Who> {
  const { mkdirSync } = await import('node:fs');
  mkdirSync(folder, { mode: 0o700 });
  const filled = await openFilled(folder, 1);
  await addMachines(filled, size.machines, 0.5);
  await launchMany(filled, size.waiting);
  await settle(filled);
  await filled.store.close();
  const [who] = filled.who;
  if (who === undefined) throw new Error('a deployment has somebody');
  return who;
}

async function onCopy<T>(full: string, work: (copy: string) => Promise<T>): Promise<T> {
  const copy = `${full}-copy`;
  cpSync(full, copy, { recursive: true });
  try {
    return await work(copy);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

async function loadProduct(folder: string, ms: number): Promise<Measured> {
  const system = await startSystem({
    ...{ data_dir: folder, cache_dir: join(folder, 'cache'), port: 0, dev: false, env: {} },
    database_url: null,
    sources: { hub_url: 'https://hub.invalid', trusted_origins: [] },
    ...{ offer: { cpu_millis: null, memory_bytes: null } },
    ...{ clock: systemClock, random: systemRandom },
    log: openLog({ level: 'info', destination: join(folder, 'bench.log'), clock: systemClock }),
  });
  const loader = openLoader();
  try {
    const token = readFileSync(join(folder, 'owner-token'), 'utf8').trim();
    const load = { url: system.url.replace('localhost', '127.0.0.1'), token, connections };
    return await measure(loader, load, ms, null);
  } finally {
    await loader.close();
    await system.stop();
  }
}

async function loadBare(
  folder: string,
  statements: Awaited<ReturnType<typeof recordLaunch>>,
  ms: number,
  pace_per_s: number,
): Promise<Measured> {
  const server = await serveBare(join(folder, 'einsora.db'), statements);
  const loader = openLoader();
  try {
    const load = { url: server.url, token: 'none', connections };
    return await measure(loader, load, ms, pace_per_s);
  } finally {
    await loader.close();
    await server.close();
  }
}

/** The most that it takes, then how it does at a pace: at `pace`, or one that it keeps for long. */
async function measure(
  loader: Loader,
  load: Pick<Load, 'url' | 'token' | 'connections'>,
  ms: number,
  pace: number | null,
): Promise<Measured> {
  await loader.run({ ...load, ...warm_up });
  const most = await loader.run({ ...load, ms, tag: 'load' });
  const pace_per_s = pace ?? Math.min(highest_pace_per_s, most.per_s / 2);
  // What the load before has left to do is done first.
  await loader.run({ ...load, ms, pace_per_s, tag: 'settling' });
  const resolution = 1;
  const delay = monitorEventLoopDelay({ resolution });
  delay.enable();
  const paced = await loader.run({ ...load, ms, pace_per_s, tag: 'paced' });
  delay.disable();
  const loop_delay_p99_ms = Math.max(0, delay.percentile(99) / 1e6 - resolution);
  return { ...most, paced, pace_per_s, loop_delay_p99_ms };
}
