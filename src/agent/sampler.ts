/**
 * What this machine's ready runs use: looked at every 10 s, and kept until a report with it was
 * taken.
 *
 * Invariants: a driver that is slow or hangs keeps no other from being asked, and is asked once at
 * a time for each run; what cannot be measured is null, which is not zero; each sample stands for
 * the time since the one before it, so that nothing falls between two; what nobody takes is
 * folded together, never dropped and never more than so many for each run.
 */
import { limits } from '../contract/limits.ts';
import type { DesiredRun, RunSample } from '../contract/sync.ts';
import { runName } from '../core/run.ts';
import { type Driver, no_stats, type RunStats } from '../drivers/driver.ts';
import { type Clock, withDeadline } from '../lib/clock.ts';
import type { GpuUse } from './gpu-use.ts';
import type { LocalRun } from './local-run.ts';
import { foldSamples } from './sample-fold.ts';
import { type Kernels, lookAtKernels } from './sample-kernels.ts';

export type Sampler = {
  /** What control plane wants of runs: what their web pages ask for comes with it. */
  learn(desired: readonly DesiredRun[]): void;
  /** What is to be told, oldest first; it is told again until `taken`. */
  batch(): Batch;
  stop(): Promise<void>;
};
export type Batch = { samples: RunSample[]; taken(): void };

export type SamplerDeps = {
  drivers: ReadonlyMap<string, Driver>;
  clock: Clock;
  /** The runs that are ready. */
  ready(): readonly LocalRun[];
  /** A round has ended. */
  sampled(): void;
  /** Of GPUs, for drivers that do not tell of them themselves. */
  gpuUse?: GpuUse | undefined;
};

/** A sample as it is kept: when it was taken, on this machine's monotonic clock. */
export type Kept = Omit<RunSample, 'ago_ms'> & { at: number };

/** What is known of one run from look to look. */
type Seen = {
  run: LocalRun;
  kept: Kept[];
  /** When it was last looked at, and the CPU time that was counted then. */
  at: number | null;
  cpu: { ms: number; at: number } | null;
  kernels: Kernels | null;
  /** A call that has not come back. */
  pending: Promise<unknown> | null;
};

type Context = SamplerDeps & {
  seen: Map<string, Seen>;
  /** What the web pages of runs ask for; null for kinds without one. */
  tokens: Map<string, string | null>;
  /** The GPUs of runs that have some. */
  gpus: Map<string, readonly string[]>;
  stopping: AbortSignal;
};

export function createSampler(deps: SamplerDeps): Sampler {
  const stopping = new AbortController();
  const seen = new Map<string, Seen>();
  const known = { tokens: new Map(), gpus: new Map() };
  const context: Context = { ...deps, seen, ...known, stopping: stopping.signal };
  const rounds = new Map<string, Promise<void>>();

  async function loop(): Promise<void> {
    for (;;) {
      await deps.clock.sleep(limits.sample_every_ms, stopping.signal);
      if (stopping.signal.aborted) return;
      for (const [driver, runs] of byDriver(context)) {
        // A driver that has not answered for all of its runs yet is left in peace.
        if (rounds.has(driver)) continue;
        const round = roundOf(context, driver, runs).finally(() => rounds.delete(driver));
        rounds.set(driver, round);
      }
    }
  }

  const running = loop();
  return {
    learn(desired) {
      context.tokens = new Map(
        desired.flatMap((one) =>
          one.spec?.kind === 'notebook'
            ? [[runName(one), one.secrets?.site_token ?? null] as const]
            : [],
        ),
      );
      context.gpus = new Map(
        desired.flatMap((one) => {
          const uuids = one.spec?.gpu_uuids ?? [];
          return uuids.length === 0 ? [] : [[runName(one), uuids] as const];
        }),
      );
    },
    batch: () => batchOf(context),
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

/** Those that are ready now, by their driver; what is known of others is forgotten. */
function byDriver({ seen, ready }: Context): Map<string, Seen[]> {
  const names = new Set<string>();
  for (const run of ready()) {
    const name = runName(run.run);
    names.add(name);
    if (seen.has(name)) continue;
    seen.set(name, { run, kept: [], at: null, cpu: null, kernels: null, pending: null });
  }
  for (const name of seen.keys()) if (!names.has(name)) seen.delete(name);
  return Map.groupBy(seen.values(), ({ run }) => run.driver);
}

/** Never rejects. */
async function roundOf(context: Context, name: string, runs: Seen[]): Promise<void> {
  const driver = context.drivers.get(name);
  const left = [...runs];
  const work = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      if (context.stopping.aborted) return;
      await lookAt(context, driver, one);
    }
  };
  await Promise.all(Array.from({ length: limits.samples_at_once }, work));
  context.sampled();
}

async function lookAt(context: Context, driver: Driver | undefined, one: Seen): Promise<void> {
  const { clock, tokens } = context;
  const { run } = one.run;
  const asksKernels = tokens.has(runName(run));
  const [stats, used] = await inTime(context, one, async () => {
    if (driver === undefined) return [no_stats, null] as const;
    const stats = driver.stats(run).catch(() => no_stats);
    const used = asksKernels ? lookAtUse(context, driver, one) : null;
    return [await stats, await used] as const;
  }).catch(() => [no_stats, null] as const);
  const gpus = stats.gpus ?? (await gpusOf(context, one));
  const now = clock.monotonic();
  const span_ms = one.at === null ? 0 : now - one.at;
  const { memory_bytes, disk_bytes } = stats;
  one.kept.push({
    ...{ workload_id: run.workload_id, replica: run.replica, run_epoch: run.run_epoch },
    ...{ at: now, span_ms, cpu_millis: cpuOf(one, stats, now), memory_bytes, disk_bytes, gpus },
    ...(asksKernels ? { used } : {}),
  });
  one.at = now;
  if (one.kept.length > limits.samples_kept_by_agent) one.kept = foldSamples(one.kept);
}

/** Apart from what its driver tells: a GPU that does not answer hides nothing else. */
async function gpusOf({ gpus, gpuUse }: Context, one: Seen): Promise<RunStats['gpus']> {
  const uuids = gpus.get(runName(one.run.run)) ?? [];
  if (uuids.length === 0 || gpuUse === undefined) return null;
  return gpuUse(uuids).catch(() => null);
}

/** A run that has not answered the last time is not asked again until it does. */
function inTime<T>({ clock }: Context, one: Seen, work: () => Promise<T>): Promise<T> {
  if (one.pending !== null) return Promise.reject(new Error('it still has not answered'));
  const asked = work();
  one.pending = asked.finally(() => {
    one.pending = null;
  });
  one.pending.catch(() => {});
  return withDeadline(clock, limits.sample_patience_ms, 'it does not answer', asked);
}

/** Thousandths of a core since the count before this one; a count that fell began anew. */
function cpuOf(one: Seen, { cpu_ms }: RunStats, now: number): number | null {
  if (cpu_ms === null) return null;
  const before = one.cpu;
  one.cpu = { ms: cpu_ms, at: now };
  if (before === null || cpu_ms < before.ms || now <= before.at) return null;
  return Math.round(((cpu_ms - before.ms) / (now - before.at)) * 1000);
}

async function lookAtUse(context: Context, driver: Driver, one: Seen): Promise<boolean | null> {
  const token = context.tokens.get(runName(one.run.run)) ?? null;
  if (token === null) return null;
  const dial = () => driver.dial(one.run.run, 'web');
  const found = await lookAtKernels(context.clock, dial, token, context.stopping);
  if (found === null) return null;
  const before = one.kernels;
  one.kernels = found;
  if (found.is_busy) return true;
  return before === null ? null : before.last_activity !== found.last_activity;
}

function batchOf({ seen, clock }: Context): Batch {
  const now = clock.monotonic();
  const samples: RunSample[] = [];
  const told: [Seen, Kept][] = [];
  for (const one of seen.values()) {
    for (const kept of one.kept) {
      if (samples.length >= limits.samples_per_report) break;
      const { at, ...sample } = kept;
      samples.push({ ...sample, ago_ms: Math.max(0, now - at) });
      told.push([one, kept]);
    }
  }
  return {
    samples,
    taken() {
      for (const [one, kept] of told) one.kept = one.kept.filter((other) => other !== kept);
    },
  };
}
