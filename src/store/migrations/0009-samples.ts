/**
 * What runs used in the past, when workloads were used last, and after how long of no use they are
 * stopped.
 */
export const samples = {
  version: 9,
  name: 'samples',
  text: `
create table run_samples (
  workload_id text not null references workloads (id),
  replica bigint not null,
  run_epoch bigint not null,
  at bigint not null,
  sample_count bigint not null,
  cpu_millis bigint,
  cpu_most_millis bigint,
  memory_bytes bigint,
  memory_most_bytes bigint,
  disk_bytes bigint,
  gpu_percent bigint,
  gpu_memory_bytes bigint,
  primary key (workload_id, at, run_epoch, replica)
);
create index run_samples_oldest on run_samples (at);

create table workload_uses (
  workload_id text primary key references workloads (id),
  used_at bigint,
  run_epoch bigint not null,
  idle_ms bigint not null,
  seen_ms bigint
);

alter table workloads add column idle_after_ms bigint not null default 0;
create index workloads_idle on workloads (id) where idle_after_ms > 0 and state = 'running';
`,
} as const;
