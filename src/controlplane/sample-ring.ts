/**
 * What one run used in the last hour, in memory.
 *
 * Invariants: grows to the hour and no further, 28 bytes for each sample, for there may be
 * thousands of runs; null is kept as null.
 */
import { limits } from '../contract/limits.ts';

export type Point = {
  /** Wall-clock milliseconds. */
  at: number;
  cpu_millis: number | null;
  memory_bytes: number | null;
  disk_bytes: number | null;
  /** Of its busiest GPU. */
  gpu_percent: number | null;
  gpu_memory_bytes: number | null;
};

export type SampleRing = {
  push(point: Point): void;
  last(): Point | null;
  /** Oldest first. */
  since(at: number): Point[];
};

const figures = [
  'cpu_millis',
  'memory_bytes',
  'disk_bytes',
  'gpu_percent',
  'gpu_memory_bytes',
] as const;
const first_size = 32;
const most = Math.ceil(limits.samples_kept_ms / limits.sample_every_ms);

export function createSampleRing(): SampleRing {
  let times = new Float64Array(first_size);
  let values = new Float32Array(first_size * figures.length);
  let count = 0;
  /** Where the oldest stands. */
  let start = 0;

  function grow(): void {
    const size = Math.min(most, times.length * 2);
    const more_times = new Float64Array(size);
    const more_values = new Float32Array(size * figures.length);
    // Only full ones grow, and they have not gone round yet.
    more_times.set(times);
    more_values.set(values);
    times = more_times;
    values = more_values;
  }

  function pointAt(place: number): Point {
    const [cpu, memory, disk, gpu, gpu_memory] = values.subarray(
      place * figures.length,
      (place + 1) * figures.length,
    );
    return {
      at: times[place] ?? 0,
      cpu_millis: orNull(cpu),
      memory_bytes: orNull(memory),
      disk_bytes: orNull(disk),
      gpu_percent: orNull(gpu),
      gpu_memory_bytes: orNull(gpu_memory),
    };
  }

  return {
    push(point) {
      if (count === times.length && count < most) grow();
      const place = (start + count) % times.length;
      times[place] = point.at;
      for (const [index, name] of figures.entries()) {
        values[place * figures.length + index] = point[name] ?? Number.NaN;
      }
      if (count < times.length) count += 1;
      else start = (start + 1) % times.length;
    },
    last: () => (count === 0 ? null : pointAt((start + count - 1) % times.length)),
    since(at) {
      const points: Point[] = [];
      for (let index = 0; index < count; index += 1) {
        const point = pointAt((start + index) % times.length);
        if (point.at >= at) points.push(point);
      }
      return points;
    },
  };
}

function orNull(value: number | undefined): number | null {
  return value === undefined || Number.isNaN(value) ? null : Math.round(value);
}
