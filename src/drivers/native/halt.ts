/**
 * Ends a run for sure.
 *
 * Invariants: resolves only when no process is left in the run's group and its keeper is gone; a
 * run that had not begun is taken, so that it never will; the keeper gets time to write down the
 * end.
 */
import type { Clock } from '../../lib/clock.ts';
import { driverError } from './errors.ts';
import { freezerOf, thaw } from './freeze.ts';
import { groupPids, removeGroup } from './group.ts';
import { groupOfRun, settle } from './judge.ts';
import { claimForDriver, type RunFolder, type RunLabel, readClaim } from './label.ts';
import { insideOf, isAlive, signalProcess } from './process.ts';

const poll_ms = 20;
/** After the sandbox was killed: for the keeper to write the end down, then for the kernel. */
const keeper_patience_ms = 2000;
const kernel_patience_ms = 20_000;

export async function halt(
  at: RunFolder,
  label: RunLabel,
  grace_ms: number,
  { clock, boot_id }: { clock: Clock; boot_id: string },
): Promise<void> {
  if (readClaim(at).by === 'nobody' && claimForDriver(at)) {
    if (label.group !== null) removeGroup(label.group);
    return;
  }
  const claim = readClaim(at);
  if (claim.by !== 'keeper' || claim.keeper.boot_id !== boot_id) return;
  const { keeper } = claim;
  const group = groupOfRun(label, keeper);
  // What stands still could not be asked to end, nor be ended.
  thaw(group, freezerOf(group));
  const begun = clock.monotonic();
  const asked = new Set<number>();
  for (;;) {
    const is_kept = isAlive(keeper, boot_id);
    const pids = groupPids(group);
    if (!is_kept && pids.length === 0) break;
    const over_ms = clock.monotonic() - begun - grace_ms;
    if (over_ms > keeper_patience_ms + kernel_patience_ms) {
      throw driverError('stop_unproven', { why: `processes ${pids.join(', ')} do not end` });
    }
    if (!is_kept || over_ms > keeper_patience_ms) {
      for (const pid of pids) signalProcess(pid, 'SIGKILL');
      if (is_kept) signalProcess(keeper.pid, 'SIGKILL');
    } else if (over_ms >= 0) {
      for (const { pid } of insideOf(pids)) signalProcess(pid, 'SIGKILL');
    } else {
      askOnce(pids, asked);
    }
    await clock.sleep(poll_ms);
  }
  settle(at, keeper, group);
}

/** Asks the program itself to end. It is process 2 of the sandbox; process 1 only reaps. */
function askOnce(pids: number[], asked: Set<number>): void {
  for (const { pid, inner } of insideOf(pids)) {
    if (inner !== 2 || asked.has(pid)) continue;
    asked.add(pid);
    signalProcess(pid, 'SIGTERM');
  }
}
