/**
 * What admission needs to look at ten thousand waiting workloads in one pass, and what browsers
 * need to follow all changes in order.
 *
 * `ask` is the part of a spec that decides where it may run; `inventory_revision` says whether a
 * machine's inventory must be read again; `change` numbers events in the order in which their
 * transactions were begun (0 where nobody numbered them).
 */
export const admission = {
  version: 6,
  name: 'admission',
  text: `
alter table workloads add column ask text not null default '';
alter table machines add column inventory_revision bigint not null default 0;
alter table workload_events add column change bigint not null default 0;
drop index workloads_waiting;
create index workloads_turns on workloads (id, revision, not_before)
  where state in ('pending', 'queued');
create index workload_events_change on workload_events (change, workload_id, number);
`,
} as const;
