/**
 * Which place a launch would get in the queue, as the last pass of the controller left it, and who
 * is before it.
 *
 * Invariants: nothing is written, in the store or in the queue; workloads of other tenants are a
 * number and nothing else.
 */
import type { Plan } from '../contract/workloads.ts';
import { weightOf } from '../core/ask.ts';
import { createFairLines, type Waiting } from '../core/fair-share.ts';
import type { WorkloadSpec } from '../core/workload.ts';
import type { Clock } from '../lib/clock.ts';
import { createSlices } from '../lib/slices.ts';
import { workloadOwners } from '../store/changes.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { Catalogs } from './catalogs.ts';
import type { QueueView } from './queue-view.ts';

type Deps = {
  store: Pick<EinsoraStore, 'read'>;
  clock: Clock;
  catalogs: Pick<Catalogs, 'read'>;
  queue: Pick<QueueView, 'waiting'>;
};

/** Names told; beyond them it is said how many more there are. */
const names_told = 5;
const slice_ms = 2;
/** Sorts behind every id: it is asked for last. */
const new_one = '~';

export async function queueOf(
  { store, clock, catalogs, queue }: Deps,
  spec: WorkloadSpec,
  asker: { tenant_id: string; user_id: string },
): Promise<Plan['queue']> {
  const { waiting, uses } = queue.waiting();
  const slices = createSlices(clock, slice_ms);
  const lines = createFairLines<Waiting>(uses);
  for (const one of waiting) {
    lines.add(one);
    if (slices.isOver()) await slices.rest();
  }
  const { tenant_id, user_id: creator_id } = asker;
  const weight = weightOf(spec, await catalogs.read());
  lines.add({ id: new_one, tenant_id, creator_id, created_at: clock.now(), weight });
  const own: string[] = [];
  let before = 0;
  for (const one of lines.order()) {
    if (one.id === new_one) break;
    before += 1;
    if (one.tenant_id === tenant_id) own.push(one.id);
    if (slices.isOver()) await slices.rest();
  }
  const ids = own.slice(0, names_told);
  const rows = ids.length === 0 ? [] : await store.read(workloadOwners, { ids });
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  return {
    place: before + 1,
    own: ids.flatMap((id) => names.get(id) ?? []),
    own_more: own.length - ids.length,
    others: before - own.length,
  };
}
