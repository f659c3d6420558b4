/**
 * The processes of a data folder's runs as the machine shows them, past all of the program's own
 * records.
 *
 * Invariants: only looks, but for `killRun`, which kills what one run of one folder owns.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseRunName } from '../../src/core/run.ts';

export type RunProcess = {
  pid: number;
  run: string;
  workload_id: string;
  /** keeper: the shell that owns the run; engine: the program inside the sandbox. */
  part: 'keeper' | 'sandbox' | 'engine';
};

/** Every process in the control group of a run that has a folder in this data folder. */
export function runProcesses(data_dir: string): RunProcess[] {
  const runs = runsOf(data_dir);
  if (runs.length === 0) return [];
  return readdirSync('/proc').flatMap((entry) => {
    const group = /^\d+$/.test(entry) ? read(`/proc/${entry}/cgroup`) : '';
    const run = runs.find((name) => group.includes(name));
    const key = run === undefined ? null : parseRunName(run);
    if (run === undefined || key === null) return [];
    const part = partOf(read(`/proc/${entry}/cmdline`).split('\0'));
    return part === null ? [] : [{ pid: Number(entry), run, workload_id: key.workload_id, part }];
  });
}

/** Process ids of the engines of one workload. */
export function enginesOf(data_dir: string, workload_id: string): number[] {
  return runProcesses(data_dir)
    .filter((found) => found.workload_id === workload_id && found.part === 'engine')
    .map(({ pid }) => pid);
}

/** Names of the runs that have a folder. */
export function runsOf(data_dir: string): string[] {
  try {
    return readdirSync(join(data_dir, 'runs')).filter((name) => parseRunName(name) !== null);
  } catch {
    return [];
  }
}

/** Process id of the keeper that owns a run; null where none does. */
export function keeperOf(data_dir: string, run: string): number | null {
  const text = read(join(data_dir, 'runs', run, 'keeper.json'));
  return text === '' ? null : ((JSON.parse(text) as { pid?: number }).pid ?? null);
}

/** kill -9 for every process of these parts of a run. */
export function killRun(data_dir: string, run: string, parts: RunProcess['part'][]): void {
  for (const found of runProcesses(data_dir)) {
    if (found.run !== run || !parts.includes(found.part)) continue;
    try {
      process.kill(found.pid, 'SIGKILL');
    } catch {
      // It went with one that was killed before it.
    }
  }
}

function partOf(argv: string[]): RunProcess['part'] | null {
  if (argv.some((arg) => arg.endsWith('keeper.sh'))) return 'keeper';
  if (argv[0]?.endsWith('/bwrap')) return 'sandbox';
  return argv[0] === '' ? null : 'engine';
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
