/**
 * What runs use, as their agents tell it: an hour in memory, and rows of 5 minutes in the store.
 *
 * Invariants: a report writes nothing, whatever it tells: rows go to the store together, every 5
 * minutes and at the end; a machine tells of its own runs only; what nobody tells of any more is
 * forgotten after the hour; figures that are old are not shown as if they were new.
 */
import { limits } from '../contract/limits.ts';
import type { RunSample } from '../contract/sync.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { runsOnMachine } from '../store/samples.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { createSampleRing, type Point, type SampleRing } from './sample-ring.ts';
import { createSampleRows, type SampleRows } from './sample-rows.ts';

/** One sample of a run that is known to be on the machine that tells of it. */
export type Told = {
  run: RunKey;
  sample: RunSample;
  gpu_count: number;
  /** Its moment on its agent's monotonic clock, and on ours. */
  ends_ms: number;
  mono: number;
};

export type Samples = {
  /** `mono_ms`: of the agent, at the report. Rejects where the store does. */
  take(machine_id: string, mono_ms: number, samples: readonly RunSample[]): Promise<void>;
  /** The last one, where it is fresh. */
  latest(run: RunKey): Point | null;
  /** Of the last hour, oldest first. */
  recent(run: RunKey, since: number): Point[];
  /** Writes what is complete. */
  write(): Promise<void>;
  stop(): Promise<void>;
};

export type SamplesDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  told(one: Told): void;
};

type Known = {
  machine_id: string;
  gpu_count: number;
  ring: SampleRing;
  /** When it was last told of, and what moment that told of, on our monotonic clock. */
  heard_mono: number;
  last_mono: number;
};

const fresh_ms = 60_000;
const asked_at_once = 400;

type Context = SamplesDeps & { known: Map<string, Known>; rows: SampleRows };

export function createSamples(deps: SamplesDeps): Samples {
  const { clock } = deps;
  const known = new Map<string, Known>();
  const context: Context = { ...deps, known, rows: createSampleRows() };
  const stopping = new AbortController();
  const running = writeNowAndThen(context, stopping.signal);
  return {
    async take(machine_id, mono_ms, samples) {
      await learn(context, machine_id, samples);
      for (const sample of samples) takeOne(context, machine_id, mono_ms, sample);
    },
    latest(run) {
      const found = known.get(runName(run));
      const is_fresh = found !== undefined && clock.monotonic() - found.last_mono <= fresh_ms;
      return is_fresh ? found.ring.last() : null;
    },
    recent: (run, since) => known.get(runName(run))?.ring.since(since) ?? [],
    write: () => write(context, clock.now()),
    async stop() {
      stopping.abort();
      await running;
      await tryWrite(context, Number.POSITIVE_INFINITY);
    },
  };
}

/** Finds out which of the runs are on that machine. */
async function learn(
  { store, clock, known }: Context,
  machine_id: string,
  samples: readonly RunSample[],
): Promise<void> {
  const unknown = samples.filter((one) => !known.has(runName(one)));
  const ids = [...new Set(unknown.map((one) => one.workload_id))];
  for (let from = 0; from < ids.length; from += asked_at_once) {
    const workload_ids = ids.slice(from, from + asked_at_once);
    for (const found of await store.read(runsOnMachine, { machine_id, workload_ids })) {
      if (known.has(runName(found))) continue;
      const now = clock.monotonic();
      const begun = { ring: createSampleRing(), heard_mono: now, last_mono: now };
      known.set(runName(found), { machine_id, gpu_count: found.gpu_count, ...begun });
    }
  }
}

function takeOne(
  { clock, known, rows, told }: Context,
  machine_id: string,
  mono_ms: number,
  sample: RunSample,
): void {
  const found = known.get(runName(sample));
  if (found?.machine_id !== machine_id) return;
  const { workload_id, replica, run_epoch, ago_ms } = sample;
  const run = { workload_id, replica, run_epoch };
  const point = pointOf(sample, Math.round(clock.now() - ago_ms));
  const mono = clock.monotonic() - ago_ms;
  found.heard_mono = clock.monotonic();
  found.last_mono = mono;
  found.ring.push(point);
  rows.add(run, point);
  told({ run, sample, gpu_count: found.gpu_count, ends_ms: mono_ms - ago_ms, mono });
}

async function writeNowAndThen(context: Context, stopping: AbortSignal): Promise<void> {
  for (;;) {
    await context.clock.sleep(limits.sample_rows_every_ms, stopping);
    if (stopping.aborted) return;
    await tryWrite(context, context.clock.now());
  }
}

async function tryWrite(context: Context, until: number): Promise<void> {
  try {
    await write(context, until);
  } catch (error) {
    context.log.warn({ error: describeError(error) }, 'what runs used was not written');
  }
}

async function write(context: Context, until: number): Promise<void> {
  const { store, clock, rows } = context;
  forgetSilent(context);
  const all = rows.take(until);
  let from = 0;
  try {
    for (; from < all.length; from += limits.sample_rows_at_once) {
      await store.transact('recordSamples', {
        rows: all.slice(from, from + limits.sample_rows_at_once),
        forget_before: clock.now() - limits.sample_rows_kept_ms,
      });
    }
  } catch (error) {
    rows.giveBack(all.slice(from));
    throw error;
  }
}

function forgetSilent({ clock, known }: Context): void {
  const before = clock.monotonic() - limits.samples_kept_ms;
  for (const [name, { heard_mono }] of known) if (heard_mono < before) known.delete(name);
}

function pointOf({ cpu_millis, memory_bytes, disk_bytes, gpus }: RunSample, at: number): Point {
  const busy = gpus?.flatMap(({ busy_percent }) => busy_percent ?? []) ?? [];
  const held = gpus?.flatMap(({ memory_bytes: bytes }) => bytes ?? []) ?? [];
  return {
    ...{ at, cpu_millis, memory_bytes, disk_bytes },
    gpu_percent: busy.length === 0 ? null : Math.max(...busy),
    gpu_memory_bytes: held.length === 0 ? null : held.reduce((sum, bytes) => sum + bytes, 0),
  };
}
