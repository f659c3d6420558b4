/**
 * What a machine offers to workloads, and what its owner keeps.
 *
 * Invariants: the offer is never more than the machine has. By default the owner keeps a quarter of
 * the cores (rounded down), a quarter of the memory (4 GiB at least, half at most), and on disk the
 * larger of 20 GB and a tenth (half of what is free at most). Figures of the owner replace
 * defaults.
 */
import type { Amounts } from '../../core/workload.ts';

export type Offer = {
  cpu_millis: number | null;
  memory_bytes: number | null;
  /** What the machine's own policy keeps at least; it only narrows the rest (ADR-0061). */
  reserve?: Reserve;
};
export type Reserve = {
  cpu_millis: number | null;
  memory_bytes: number | null;
  disk_bytes: number | null;
};

export type Has = {
  cpu_count: number;
  cpu_millis: number;
  memory_bytes: number;
  disk_free_bytes: number;
  disk_total_bytes: number;
};

const gib = 2 ** 30;
const disk_floor_bytes = 20e9;

export function offeredAmounts(has: Has, offer: Offer): Amounts {
  const kept_millis = Math.floor(has.cpu_count / 4) * 1000;
  const kept_memory = Math.min(has.memory_bytes / 2, Math.max(has.memory_bytes / 4, 4 * gib));
  const floor = Math.max(disk_floor_bytes, has.disk_total_bytes / 10);
  const kept_disk = Math.min(has.disk_free_bytes / 2, floor);
  const cpu_millis = offer.cpu_millis ?? has.cpu_millis - kept_millis;
  const memory_bytes = offer.memory_bytes ?? has.memory_bytes - kept_memory;
  const left = (has_amount: number, kept: number | null | undefined) =>
    Math.max(0, has_amount - (kept ?? 0));
  const { reserve } = offer;
  const disk_bytes = has.disk_free_bytes - kept_disk;
  return {
    cpu_millis: Math.floor(Math.min(left(has.cpu_millis, reserve?.cpu_millis), cpu_millis)),
    memory_bytes: Math.floor(Math.min(left(has.memory_bytes, reserve?.memory_bytes), memory_bytes)),
    disk_bytes: Math.floor(Math.min(left(has.disk_free_bytes, reserve?.disk_bytes), disk_bytes)),
  };
}
