/**
 * What became of a run, from its folder and /proc.
 *
 * Invariants: `running` means that the very keeper that owns the run lives; `exited` that nothing
 * of the run executes any more (what a dead keeper left behind is killed first); in doubt it is
 * `unknown`. Nothing here waits, so a judgement is one moment.
 */
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { RunExit } from '../../core/run.ts';
import type { Group } from './cgroup.ts';
import { groupPids, killGroupPids, oomKills, removeGroup } from './group.ts';
import {
  exitOf,
  type Keeper,
  type RunFolder,
  type RunLabel,
  readClaim,
  readExit,
  writeUnseenExit,
} from './label.ts';
import { isAlive } from './process.ts';

export type Judgement =
  | { state: 'unclaimed' }
  | { state: 'running'; keeper: Keeper; group: Group; started_at: number }
  | { state: 'exited'; exit: RunExit; started_at: number | null }
  | { state: 'unknown'; started_at: number | null };

const unseen = exitOf(null, 0);

export function judge(at: RunFolder, label: RunLabel, boot_id: string): Judgement {
  const claim = readClaim(at);
  if (claim.by === 'nobody') return { state: 'unclaimed' };
  if (claim.by === 'driver') {
    return { state: 'exited', exit: readExit(at) ?? unseen, started_at: null };
  }
  const { keeper } = claim;
  const started_at = Math.round(statSync(join(at.path, 'keeper.json')).mtimeMs);
  if (keeper.boot_id !== boot_id) {
    return { state: 'exited', exit: readExit(at) ?? unseen, started_at };
  }
  const group = groupOfRun(label, keeper);
  if (isAlive(keeper, boot_id)) return { state: 'running', keeper, group, started_at };
  killGroupPids(group);
  if (groupPids(group).length > 0) return { state: 'unknown', started_at };
  return { state: 'exited', exit: settle(at, keeper, group), started_at };
}

/** Where a run's processes are: its own group, or the scope that its keeper woke up in. */
export function groupOfRun(label: RunLabel, keeper: Keeper): Group {
  if (label.group !== null) return label.group;
  const folder = dirname(keeper.counter);
  return { version: 2, memory: folder, cpu: folder, accounting: folder, pids: folder };
}

/** Writes down an end that nobody saw, and removes the group, once nothing executes any more. */
export function settle(at: RunFolder, keeper: Keeper, group: Group): RunExit {
  let exit = readExit(at);
  if (exit === null) {
    const kills = oomKills(keeper.counter);
    writeUnseenExit(at, kills);
    exit = exitOf(null, kills);
  }
  removeGroup(group);
  return exit;
}
