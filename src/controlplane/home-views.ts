/**
 * Where the disks of workloads are, as the API shows it.
 *
 * Invariants: a machine that the tenant may not know of any more is not named.
 */
import type { Workload } from '../contract/workloads.ts';
import type { WorkloadRow } from '../store/events.ts';
import { homeNames } from '../store/homes.ts';
import type { EinsoraStore } from '../store/transactions.ts';

/** All rows are of one tenant. */
export async function homesOf(
  store: Pick<EinsoraStore, 'read'>,
  rows: readonly WorkloadRow[],
): Promise<(row: WorkloadRow) => Workload['home']> {
  const [first] = rows;
  const ids = [...new Set(rows.flatMap(({ home_machine_id }) => home_machine_id ?? []))];
  const known =
    first === undefined || ids.length === 0
      ? []
      : await store.read(homeNames, { tenant_id: first.tenant_id, ids });
  const names = new Map(known.map(({ id, name }) => [id, name]));
  return ({ home_machine_id: id, home_region, state }) => {
    if (id === null || state === 'deleted') return null;
    return { machine_name: names.get(id) ?? null, region: home_region };
  };
}
