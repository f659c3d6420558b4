/**
 * A run: one attempt of a workload (or of one replica of an endpoint) on one machine, named by
 * (workload_id, replica, run_epoch). `run_epoch` only rises.
 */
export type RunKey = { workload_id: string; replica: number; run_epoch: number };

/** How a run's process ended. `code` and `signal` are null where nobody could see the end. */
export type RunExit = {
  code: number | null;
  signal: string | null;
  out_of_memory: boolean;
};

/** `01h…xyz.0.3`: a run's name in folders, labels and logs. */
export function runName(run: RunKey): string {
  return `${run.workload_id}.${run.replica}.${run.run_epoch}`;
}

/** Reads a run's name back; null where the text is not one. */
export function parseRunName(name: string): RunKey | null {
  const match = /^([0-9a-z]{26})\.(\d{1,6})\.(\d{1,9})$/.exec(name);
  if (!match?.[1]) return null;
  return { workload_id: match[1], replica: Number(match[2]), run_epoch: Number(match[3]) };
}
