/**
 * Files of workloads for the rig, kept in memory as the sim driver keeps them: for tests that ask
 * for them without running anything.
 */
import type { Backend } from '../../src/backends/backend.ts';
import { createSimFiles, type SimFiles } from '../../src/drivers/sim-files.ts';
import type { Clock } from '../../src/lib/clock.ts';

export function simFilesOf(clock: Clock): Backend['files'] {
  const kept = new Map<string, SimFiles>();
  return async (_, { workload_id }) => {
    const files = kept.get(workload_id) ?? createSimFiles(clock);
    kept.set(workload_id, files);
    return files;
  };
}
