/**
 * What must hold of the ledger beside runs, holds and states, whatever happened to them
 * (I-19 to I-22).
 */
import assert from 'node:assert/strict';
import { createTally } from '../../src/core/usage.ts';
import type { WorkloadRow } from '../../src/store/events.ts';
import type { LedgerKind, LedgerRow } from '../../src/store/ledger.ts';
import type { Row } from '../../src/store/sql.ts';
import { closedEntries } from '../../src/store/usage.ts';
import { type RigStore, select } from './rig.ts';

const always = { from: 0, to: Number.MAX_SAFE_INTEGER };

export async function checkLedger(store: RigStore): Promise<void> {
  const rows = await select<LedgerRow>(store, 'select * from ledger order by started_steady, id');
  const workloads = await select<WorkloadRow>(store, 'select * from workloads');
  const holds = await select<Row & { workload_id: string; released_at: number | null }>(
    store,
    "select * from holds where device = ''",
  );
  for (const workload of workloads) {
    const own = rows.filter((row) => row.workload_id === workload.id);
    const open = (kind: LedgerKind) =>
      own.filter((row) => row.kind === kind && row.ended_at === null).length;
    assert.equal(open('metered'), workload.state === 'running' ? 1 : 0, 'metered while running');
    const held = holds.filter((hold) => hold.workload_id === workload.id);
    const unreleased = held.filter((hold) => hold.released_at === null).length;
    assert.equal(open('held'), unreleased, 'held while something is reserved');
    for (const kind of ['metered', 'held'] as const) {
      checkOrder(own.filter((row) => row.kind === kind && row.sign === 1));
      checkRest(own.filter((row) => row.kind === kind));
    }
  }
  await checkSums(store, rows, workloads);
}

/** Lengths are never negative, and none overlaps the one before. */
function checkOrder(rows: LedgerRow[]): void {
  let last = 0;
  for (const row of rows.sort((a, b) => a.started_at - b.started_at || a.entry - b.entry)) {
    assert.ok(row.started_at >= last, 'intervals of one workload do not overlap');
    if (row.ended_at === null) continue;
    assert.ok(row.ended_at >= row.started_at, 'no length is negative');
    assert.equal(
      row.ended_at - row.started_at,
      (row.ended_steady ?? 0) - row.started_steady,
      'lengths are those of the steady clock',
    );
    last = row.ended_at;
  }
}

/** No more is taken off a run than was measured of it. */
function checkRest(rows: LedgerRow[]): void {
  for (const run_epoch of new Set(rows.map((row) => row.run_epoch))) {
    const own = rows.filter((row) => row.run_epoch === run_epoch);
    if (own.some((row) => row.ended_at === null)) continue;
    const rest = own.reduce(
      (sum, row) => sum + row.sign * ((row.ended_at ?? 0) - row.started_at),
      0,
    );
    assert.ok(rest >= 0, `${own[0]?.id}: ${rest} ms`);
  }
}

/** Reports of a tenant are the sums of its workloads, and both are the ledger's. */
async function checkSums(
  store: RigStore,
  rows: LedgerRow[],
  workloads: WorkloadRow[],
): Promise<void> {
  for (const tenant_id of new Set(workloads.map((row) => row.tenant_id))) {
    const asked = { tenant_id, user_id: null, ...always, limit: 10_000, after: null };
    const tally = createTally(always, 'workload');
    for (const entry of await store.read(closedEntries, asked)) tally.add(entry);
    const sum = (some: LedgerRow[]) =>
      some.reduce((all, row) => all + row.sign * ((row.ended_at ?? 0) - row.started_at), 0);
    const closed = rows.filter((row) => row.ended_at !== null && row.tenant_id === tenant_id);
    const total = tally.total();
    assert.equal(total.metered_ms + total.held_ms, sum(closed), 'a report is the ledger');
    for (const [workload_id, usage] of tally.groups()) {
      const own = closed.filter((row) => row.workload_id === workload_id);
      assert.equal(usage.metered_ms + usage.held_ms, sum(own), 'and so is each of its workloads');
    }
  }
}
