/**
 * Quotas, and the ledger of who used how much for how long (ADR-0029).
 *
 * A workload's amounts become columns, so that claims can be summed. Of workloads that were made
 * before, those that had a run take them from its hold; the others claim nothing until they are
 * started or placed. In `quotas`, an empty `user_id` or `gpu_class` means all of them; a null limit
 * means none. Runs that go on during the upgrade are measured from when they began.
 */
export const quotaLedger = {
  version: 3,
  name: 'quota-ledger',
  text: `
alter table workloads add column gpu_class text not null default '';
alter table workloads add column gpu_count bigint not null default 0;
alter table workloads add column cpu_millis bigint not null default 0;
alter table workloads add column memory_bytes bigint not null default 0;
alter table workloads add column disk_bytes bigint not null default 0;
update workloads set
  cpu_millis =
    coalesce((select max(h.cpu_millis) from holds h where h.workload_id = workloads.id), 0),
  memory_bytes =
    coalesce((select max(h.memory_bytes) from holds h where h.workload_id = workloads.id), 0),
  disk_bytes =
    coalesce((select max(h.disk_bytes) from holds h where h.workload_id = workloads.id), 0);
create index workloads_claims on workloads (tenant_id)
  where state not in ('stopped', 'failed', 'deleted');

create table quotas (
  tenant_id text not null references tenants (id),
  user_id text not null,
  gpu_class text not null,
  workloads bigint constraint quotas_workloads check (workloads >= 0),
  cpu_millis bigint constraint quotas_cpu check (cpu_millis >= 0),
  memory_bytes bigint constraint quotas_memory check (memory_bytes >= 0),
  disk_bytes bigint constraint quotas_disk check (disk_bytes >= 0),
  gpus bigint constraint quotas_gpus check (gpus >= 0),
  changed_at bigint not null,
  primary key (tenant_id, user_id, gpu_class)
);

alter table runs add column proven_steady bigint;

create table ledger_clock (
  id bigint primary key constraint ledger_clock_one check (id = 1),
  steady bigint not null,
  mono bigint not null,
  wall bigint not null,
  seen_steady bigint not null,
  seen_wall bigint not null
);

create table ledger (
  id text primary key,
  workload_id text not null,
  replica bigint not null,
  run_epoch bigint not null,
  kind text not null constraint ledger_kind check (kind in ('metered', 'held')),
  entry bigint not null,
  sign bigint not null constraint ledger_sign check (sign in (1, -1)),
  reason text not null,
  tenant_id text not null references tenants (id),
  user_id text not null references users (id),
  machine_id text not null references machines (id),
  placed_class text not null,
  gpu_count bigint not null,
  cpu_millis bigint not null,
  memory_bytes bigint not null,
  started_at bigint not null,
  started_steady bigint not null,
  started_wall bigint not null,
  ended_at bigint constraint ledger_order check (ended_at >= started_at),
  ended_steady bigint,
  ended_by text,
  closed_steady bigint,
  foreign key (workload_id, replica, run_epoch)
    references runs (workload_id, replica, run_epoch)
);
create unique index ledger_entry on ledger (workload_id, replica, run_epoch, kind, entry);
create unique index ledger_open on ledger (workload_id, replica, run_epoch, kind)
  where ended_at is null;
create index ledger_open_of_tenant on ledger (tenant_id, id) where ended_at is null;
create index ledger_metered on ledger (ended_at, id)
  where kind = 'metered' and ended_at is not null;
create index ledger_open_metered on ledger (id) where kind = 'metered' and ended_at is null;
create index ledger_of_machine on ledger (machine_id, ended_steady) where kind = 'metered';
create index ledger_closed on ledger (tenant_id, ended_at, id) where ended_at is not null;

insert into ledger (id, workload_id, replica, run_epoch, kind, entry, sign, reason, tenant_id,
  user_id, machine_id, placed_class, gpu_count, cpu_millis, memory_bytes, started_at,
  started_steady, started_wall)
select r.workload_id || '.' || r.replica || '.' || r.run_epoch || '.held.1', r.workload_id,
  r.replica, r.run_epoch, 'held', 1, 1, 'measured', w.tenant_id, w.creator_id, r.machine_id,
  r.placed_class, 0, h.cpu_millis, h.memory_bytes, r.created_at, r.created_at,
  r.created_at
from runs r join workloads w on w.id = r.workload_id
  join holds h on h.workload_id = r.workload_id and h.replica = r.replica
    and h.run_epoch = r.run_epoch and h.device = ''
where h.released_at is null;

insert into ledger (id, workload_id, replica, run_epoch, kind, entry, sign, reason, tenant_id,
  user_id, machine_id, placed_class, gpu_count, cpu_millis, memory_bytes, started_at,
  started_steady, started_wall)
select r.workload_id || '.' || r.replica || '.' || r.run_epoch || '.metered.1', r.workload_id,
  r.replica, r.run_epoch, 'metered', 1, 1, 'measured', w.tenant_id, w.creator_id, r.machine_id,
  r.placed_class, 0, h.cpu_millis, h.memory_bytes, r.ready_at, r.ready_at,
  r.ready_at
from runs r join workloads w on w.id = r.workload_id and w.run_epoch = r.run_epoch
  join holds h on h.workload_id = r.workload_id and h.replica = r.replica
    and h.run_epoch = r.run_epoch and h.device = ''
where w.state = 'running' and r.ended_at is null and r.ready_at is not null;
`,
} as const;
