/**
 * Samples on their way to the store: gathered into rows of 5 minutes.
 *
 * Invariants: a row counts what it is made of; what was not measured is left out of its means and
 * is null where nothing was; rows that cannot be written are kept, the newest so many.
 */
import { limits } from '../contract/limits.ts';
import type { RunKey } from '../core/run.ts';
import type { SampleRow } from '../store/samples.ts';
import type { Point } from './sample-ring.ts';

export type SampleRows = {
  add(run: RunKey, point: Point): void;
  /** Rows whose 5 minutes are over at that moment, or all of them. */
  take(until: number): SampleRow[];
  /** They could not be written. */
  giveBack(rows: readonly SampleRow[]): void;
};

type Mean = { sum: number; count: number; most: number; last: number };
type Gathered = { run: RunKey; at: number; count: number } & Record<
  'cpu' | 'memory' | 'disk' | 'gpu' | 'gpu_memory',
  Mean | null
>;

const kept_rows = 50_000;

export function createSampleRows(): SampleRows {
  const open = new Map<string, Gathered>();
  let waiting: SampleRow[] = [];
  return {
    add(run, point) {
      const at = Math.floor(point.at / limits.sample_rows_every_ms) * limits.sample_rows_every_ms;
      const name = `${run.workload_id}.${run.replica}.${run.run_epoch}.${at}`;
      const empty = { cpu: null, memory: null, disk: null, gpu: null, gpu_memory: null };
      const one = open.get(name) ?? { run, at, count: 0, ...empty };
      open.set(name, one);
      one.count += 1;
      one.cpu = addTo(one.cpu, point.cpu_millis);
      one.memory = addTo(one.memory, point.memory_bytes);
      one.disk = addTo(one.disk, point.disk_bytes);
      one.gpu = addTo(one.gpu, point.gpu_percent);
      one.gpu_memory = addTo(one.gpu_memory, point.gpu_memory_bytes);
    },
    take(until) {
      const rows = waiting;
      waiting = [];
      for (const [name, one] of open) {
        if (one.at + limits.sample_rows_every_ms > until) continue;
        open.delete(name);
        rows.push(rowOf(one));
      }
      return rows;
    },
    giveBack(rows) {
      waiting = [...rows, ...waiting].slice(-kept_rows);
    },
  };
}

function addTo(mean: Mean | null, value: number | null): Mean | null {
  if (value === null) return mean;
  if (mean === null) return { sum: value, count: 1, most: value, last: value };
  const most = Math.max(mean.most, value);
  return { sum: mean.sum + value, count: mean.count + 1, most, last: value };
}

function rowOf({ run, at, count, cpu, memory, disk, gpu, gpu_memory }: Gathered): SampleRow {
  const { workload_id, replica, run_epoch } = run;
  return {
    ...{ workload_id, replica, run_epoch, at, sample_count: count },
    cpu_millis: meanOf(cpu),
    cpu_most_millis: cpu?.most ?? null,
    memory_bytes: meanOf(memory),
    memory_most_bytes: memory?.most ?? null,
    disk_bytes: disk?.last ?? null,
    gpu_percent: meanOf(gpu),
    gpu_memory_bytes: meanOf(gpu_memory),
  };
}

function meanOf(mean: Mean | null): number | null {
  return mean === null ? null : Math.round(mean.sum / mean.count);
}
