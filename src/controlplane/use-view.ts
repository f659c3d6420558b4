/**
 * What a workload uses and whether anybody uses it, as the API shows it.
 *
 * Invariants: only of a run that runs; figures that are old are null.
 */

import { limits } from '../contract/limits.ts';
import type { WorkloadUse } from '../contract/stats.ts';
import { judgeIdle } from '../core/idle.ts';
import type { RunKey } from '../core/run.ts';
import type { WorkloadRow } from '../store/events.ts';
import type { LastUse } from './last-use.ts';
import type { Samples } from './samples.ts';

export type UseView = (row: WorkloadRow, run: RunKey | undefined) => WorkloadUse | null;

const nothing = {
  ...{ at: null, cpu_millis: null, memory_bytes: null, disk_bytes: null },
  ...{ gpu_percent: null, gpu_memory_bytes: null },
};

export function createUseView(
  samples: Pick<Samples, 'latest'>,
  lastUse: Pick<LastUse, 'of'>,
): UseView {
  return (row, run) => {
    if (run === undefined || row.state !== 'running') return null;
    const { used_at, busy_with, ...state } = lastUse.of(row.id, run.run_epoch);
    const { idle_after_ms: after_ms } = row;
    const { left_ms } = judgeIdle(state, after_ms, limits.idle_warning_ms);
    const idle_left_ms = after_ms === 0 ? null : Math.round(left_ms);
    return { ...nothing, ...samples.latest(run), used_at, idle_left_ms, busy_with };
  };
}
