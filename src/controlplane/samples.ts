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
import { runsOnMachine, type SampleRow } from '../store/samples.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { createSampleRing, type Point, type SampleRing } from './sample-ring.ts';
import { createSampleRows } from './sample-rows.ts';

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

export function createSamples(deps: SamplesDeps): Samples {
  const { store, clock, log } = deps;
  const known = new Map<string, Known>();
  const rows = createSampleRows();
  const stopping = new AbortController();

  async function learn(machine_id: string, samples: readonly RunSample[]): Promise<void> {
    const ids = new Set(
      samples.filter((one) => !known.has(runName(one))).map((one) => one.workload_id),
    );
    const unknown = [...ids];
    for (let from = 0; from < unknown.length; from += asked_at_once) {
      const workload_ids = unknown.slice(from, from + asked_at_once);
      for (const found of await store.read(runsOnMachine, { machine_id, workload_ids })) {
        const { gpu_count } = found;
        const name = runName(found);
        if (known.has(name)) continue;
        const now = clock.monotonic();
        const begun = { ring: createSampleRing(), heard_mono: now, last_mono: now };
        known.set(name, { machine_id, gpu_count, ...begun });
      }
    }
  }

  function takeOne(machine_id: string, mono_ms: number, sample: RunSample): void {
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
    deps.told({ run, sample, gpu_count: found.gpu_count, ends_ms: mono_ms - ago_ms, mono });
  }

  function forgetSilent(): void {
    const before = clock.monotonic() - limits.samples_kept_ms;
    for (const [name, { heard_mono }] of known) if (heard_mono < before) known.delete(name);
  }

  async function write(until: number): Promise<void> {
    forgetSilent();
    const all = rows.take(until);
    let from = 0;
    try {
      for (; from < all.length; from += limits.sample_rows_at_once) {
        await record(all.slice(from, from + limits.sample_rows_at_once));
      }
    } catch (error) {
      rows.giveBack(all.slice(from));
      throw error;
    }
  }

  function record(some: SampleRow[]): Promise<void> {
    const forget_before = clock.now() - limits.sample_rows_kept_ms;
    return store.transact('recordSamples', { rows: some, forget_before });
  }

  async function loop(): Promise<void> {
    for (;;) {
      await clock.sleep(limits.sample_rows_every_ms, stopping.signal);
      if (stopping.signal.aborted) return;
      await tryWrite(clock.now());
    }
  }

  async function tryWrite(until: number): Promise<void> {
    try {
      await write(until);
    } catch (error) {
      log.warn({ error: describeError(error) }, 'what runs used was not written');
    }
  }

  const running = loop();
  return {
    async take(machine_id, mono_ms, samples) {
      await learn(machine_id, samples);
      for (const sample of samples) takeOne(machine_id, mono_ms, sample);
    },
    latest(run) {
      const found = known.get(runName(run));
      const is_fresh = found !== undefined && clock.monotonic() - found.last_mono <= fresh_ms;
      return is_fresh ? found.ring.last() : null;
    },
    recent: (run, since) => known.get(runName(run))?.ring.since(since) ?? [],
    write: () => write(clock.now()),
    async stop() {
      stopping.abort();
      await running;
      await tryWrite(Number.POSITIVE_INFINITY);
    },
  };
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
