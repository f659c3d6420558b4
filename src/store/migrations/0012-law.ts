/**
 * The law: with whom machines are shared, where a workload lives, what it may fall back to.
 */
export const law = {
  version: 12,
  name: 'law',
  text: `
create table machine_guests (
  machine_id text not null references machines (id),
  tenant_id text not null references tenants (id),
  created_at bigint not null,
  primary key (machine_id, tenant_id)
);
create index machine_guests_of_tenant on machine_guests (tenant_id);

-- One run of each replica counts; those that another one follows live on until they are proven
-- gone and say nothing of their workload any more (ADR-0062, ADR-0063).
alter table runs add column superseded_at bigint;
update runs set superseded_at = created_at where run_epoch <>
  (select w.run_epoch from workloads w where w.id = runs.workload_id);
drop index runs_unproven;
create unique index runs_current on runs (workload_id, replica) where superseded_at is null;

-- How many replicas are wanted, and how many count against the quota: those that are to go count
-- until they are proven gone.
alter table workloads add column replicas bigint not null default 1;
alter table workloads add column claims bigint not null default 1;

-- Replicas of an endpoint that has more than one: of one alone the workload says it all.
create table replicas (
  workload_id text not null references workloads (id),
  replica bigint not null,
  state text not null constraint replicas_state check (state in ('waiting', 'placed', 'failed')),
  attempts bigint not null,
  not_before bigint not null,
  code text,
  details text not null,
  since bigint not null,
  revision bigint not null,
  primary key (workload_id, replica)
);
create index replicas_waiting on replicas (workload_id, replica) where state = 'waiting';

-- what a person says of a machine stands beside what its agent says, and is not undone by it
alter table machines add column host_name text not null default '';
alter table machines add column named_at bigint;
alter table machines add column drained_at bigint;
alter table machines add column removed_at bigint;
alter table machines add column cap_cpu_millis bigint;
alter table machines add column cap_memory_bytes bigint;
alter table machines add column cap_disk_bytes bigint;
alter table machines add column fenced_epoch bigint;
alter table machines add column reported_cpu_millis bigint not null default 0;
alter table machines add column reported_memory_bytes bigint not null default 0;
alter table machines add column reported_disk_bytes bigint not null default 0;
update machines set reported_cpu_millis = cpu_millis, reported_memory_bytes = memory_bytes,
  reported_disk_bytes = disk_bytes;
create index machines_name on machines (tenant_id, name);
-- what its owner wants of it back (JSON of core/reclaim.ts, empty where nothing), and who gets
-- nothing new there meanwhile: nobody barred (empty), guests, or all
alter table machines add column reclaim text not null default '';
alter table machines add column reclaim_bars text not null default '';
create index machines_reclaimed on machines (id) where reclaim <> '';
create index workloads_preempted on workloads (id) where park_cause = 'preempted';

-- What may stand in for what was asked: the text that admission reads, which step what it claims
-- is of (0: as asked), that it gave its place up to go back, and the step that each run is of.
alter table workloads add column fallback text not null default '';
alter table workloads add column fallback_step bigint not null default 0;
alter table workloads add column fallback_due bigint not null default 0;
alter table workloads add column fallback_return bigint not null default 0;
alter table runs add column fallback text not null default '';
create index workloads_returning on workloads (id) where fallback_return = 1 and fallback_step > 0;

-- where a workload's disk is: its only candidate from its first placement on (ADR-0055)
alter table workloads add column home_machine_id text;
alter table workloads add column home_region text not null default '';
create index workloads_at_home on workloads (home_machine_id) where home_machine_id is not null;

-- a machine on which a start failed, and until when it is the last choice
alter table workloads add column avoid_machine_id text;
alter table workloads add column avoid_until bigint not null default 0;

-- what an operator adds to the catalog, replaces in it or retires of it; no entry: retired
create table catalog_entries (
  sort text not null constraint catalog_entries_sort check (sort in ('class', 'image')),
  name text not null,
  entry text,
  changed_at bigint not null,
  changed_by text not null,
  primary key (sort, name)
);

-- a run keeps how its image is run where an operator wrote that, and what its time weighed
alter table runs add column runtime text;
alter table runs add column weight_millis bigint not null default 0;
alter table ledger add column weight_millis bigint not null default 0;

-- of a made-up machine in dev mode: whose row of the trust matrix its run took (ADR-0057)
alter table runs add column driver_as text;

-- whether a run is of its machine's owner; before machines were shared, all were
alter table runs add column isolation_tier text not null default 'trusted';

-- to whom the owner of a machine opened an endpoint on it: single tenants, or the community; they
-- may send prompts and nothing else (ADR-0058)
create table endpoint_guests (
  workload_id text not null references workloads (id),
  tenant_id text not null references tenants (id),
  created_at bigint not null,
  primary key (workload_id, tenant_id)
);
create index endpoint_guests_of_tenant on endpoint_guests (tenant_id);
alter table workloads add column opened_at bigint;
-- until when it was open to anybody: engines that ran then may still remember others' prompts
alter table workloads add column shared_until bigint;
create index workloads_opened on workloads (id) where opened_at is not null;

-- Who has a GPU: a run alone, by its name, or a creator for some of their own, by their id. Each
-- open hold of a device points at its taker, of which a device has one at a time (ADR-0053).
create table taken_devices (
  id text primary key,
  machine_id text not null references machines (id),
  device text not null,
  taker text not null,
  created_at bigint not null,
  constraint taken_devices_id check (id = machine_id || '/' || device || '/' || taker)
);
create unique index taken_devices_once on taken_devices (machine_id, device);
drop index holds_device;
alter table holds add column sharer text not null default '';
alter table holds add column taken text references taken_devices (id) constraint holds_taken check (
  (taken is null and (device = '' or released_at is not null)) or
  (taken is not null and taken = machine_id || '/' || device || '/' ||
    case when sharer = '' then workload_id || '.' || replica || '.' || run_epoch else sharer end)
);
create index holds_taken_by on holds (taken) where taken is not null;

-- what the guard of its machine does to a run, and for how long it stood still (ADR-0061)
alter table runs add column guarded text not null default '';
alter table runs add column paused_ms bigint not null default 0;
`,
} as const;
