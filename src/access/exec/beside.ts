/**
 * The run that somebody wants to start a program beside, or to reach files in.
 *
 * Invariants: another tenant's workload looks like none; only one that runs now is found; nobody
 * goes into an endpoint on a machine of somebody else: there it only answers requests, and that is
 * the promise to the machine's owner.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { hasShell } from '../../core/images.ts';
import type { RunKey } from '../../core/run.ts';
import type { Kind } from '../../core/workload.ts';
import { findTarget } from '../../store/keys.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import { currentRuns, findWorkload } from '../../store/workloads.ts';

export type Beside = { workload_id: string; name: string; run: RunKey; machine_id: string };

export async function findBeside(
  store: Pick<EinsoraStore, 'read'>,
  tenant_id: string,
  workload: string,
  /** Called for one that was stopped for being idle, before it is looked at again. */
  awaken?: (workload_id: string) => Promise<void> | undefined,
): Promise<Beside> {
  const first = await store.read(findWorkload, { tenant_id, workload });
  const sleeps = first !== undefined && first.state !== 'running' && first.park_cause === 'idle';
  if (sleeps) await awaken?.(first.id);
  const row = sleeps ? await store.read(findWorkload, { tenant_id, workload }) : first;
  if (row === undefined) throw new EinsoraError('not_found', { what: `workload ${workload}` });
  const { id, name, kind, state } = row;
  const [found] = await store.read(currentRuns, { workload_ids: [id] });
  if (state !== 'running' || found === undefined) {
    throw new EinsoraError('not_ready', { name, state });
  }
  if (!hasShell(kind as Kind)) {
    const target = await store.read(findTarget, { workload_id: id });
    const is_own = target?.machine_tenant_id === tenant_id;
    if (!is_own) throw new EinsoraError('no_shell', { name, kind });
  }
  const { workload_id, replica, run_epoch, machine_id } = found;
  return { workload_id, name, run: { workload_id, replica, run_epoch }, machine_id };
}
