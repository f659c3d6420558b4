/**
 * The first schema: accounts, machines, workloads, runs, holds, timelines, keys.
 *
 * Invariants held by the database itself: one name per tenant among what is not deleted; one run
 * that is not proven gone per replica; a device is held once; an event number is used once; a hash
 * is used once. Booleans are absent on purpose: a moment (`revoked_at`) says more and compares the
 * same on both engines.
 */
export const solo = {
  version: 1,
  name: 'solo',
  text: `
create table meta (
  key text primary key,
  value text not null
);

create table tenants (
  id text primary key,
  slug text not null constraint tenants_slug unique,
  name text not null,
  created_at bigint not null
);

create table users (
  id text primary key,
  tenant_id text not null references tenants (id),
  name text not null,
  role text not null constraint users_role
    check (role in ('viewer', 'member', 'tenant-admin', 'operator')),
  created_at bigint not null,
  disabled_at bigint
);

create table sessions (
  id text primary key,
  user_id text not null references users (id),
  hash text not null constraint sessions_hash unique,
  created_at bigint not null,
  last_used_at bigint not null,
  expires_at bigint not null,
  revoked_at bigint
);

create table tokens (
  id text primary key,
  user_id text not null references users (id),
  name text not null,
  hash text not null constraint tokens_hash unique,
  last_four text not null,
  created_at bigint not null,
  expires_at bigint,
  revoked_at bigint
);

create table sign_in_links (
  hash text primary key,
  user_id text not null references users (id),
  created_at bigint not null,
  expires_at bigint not null,
  used_at bigint
);

create table machines (
  id text primary key,
  tenant_id text not null references tenants (id),
  name text not null,
  region text not null,
  sharing text not null constraint machines_sharing
    check (sharing in ('private', 'invite-only', 'community')),
  boot_id text,
  agent_epoch bigint not null,
  generation bigint not null,
  cpu_millis bigint not null,
  memory_bytes bigint not null,
  disk_bytes bigint not null,
  inventory text,
  created_at bigint not null,
  hello_at bigint
);

create table workloads (
  id text primary key,
  tenant_id text not null references tenants (id),
  creator_id text not null references users (id),
  name text not null,
  kind text not null constraint workloads_kind
    check (kind in ('vm', 'notebook', 'endpoint', 'instance')),
  spec text not null,
  state text not null constraint workloads_state
    check (state in ('pending', 'queued', 'provisioning', 'running', 'stopping', 'stopped',
      'failed', 'deleting', 'deleted')),
  intent text not null constraint workloads_intent
    check (intent in ('running', 'stopped', 'deleted')),
  park_cause text not null constraint workloads_park_cause
    check (park_cause in ('none', 'user', 'idle', 'preempted', 'trust', 'quota')),
  code text,
  details text not null,
  revision bigint not null,
  run_epoch bigint not null,
  event_number bigint not null,
  event_at bigint not null,
  attempts bigint not null,
  not_before bigint not null,
  created_at bigint not null,
  state_since bigint not null
);
create unique index workloads_name on workloads (tenant_id, name) where state <> 'deleted';
create index workloads_newest on workloads (tenant_id, created_at, id);
create index workloads_waiting on workloads (created_at, id) where state in ('pending', 'queued');

create table runs (
  workload_id text not null references workloads (id),
  replica bigint not null,
  run_epoch bigint not null,
  machine_id text not null references machines (id),
  driver text not null,
  isolation text not null constraint runs_isolation check (isolation in ('strong', 'weak')),
  placed_class text not null,
  wanted text not null constraint runs_wanted check (wanted in ('run', 'park', 'remove')),
  observed text not null constraint runs_observed
    check (observed in ('present', 'absent', 'unknown')),
  proven_at bigint,
  ready_at bigint,
  ended_at bigint,
  exit text,
  removed_at bigint,
  created_at bigint not null,
  primary key (workload_id, replica, run_epoch)
);
create unique index runs_unproven on runs (workload_id, replica) where ended_at is null;
create index runs_of_machine on runs (machine_id) where removed_at is null;

create table holds (
  workload_id text not null,
  replica bigint not null,
  run_epoch bigint not null,
  machine_id text not null references machines (id),
  device text not null,
  cpu_millis bigint not null constraint holds_cpu check (cpu_millis >= 0),
  memory_bytes bigint not null constraint holds_memory check (memory_bytes >= 0),
  disk_bytes bigint not null constraint holds_disk check (disk_bytes >= 0),
  created_at bigint not null,
  released_at bigint,
  primary key (workload_id, replica, run_epoch, device),
  foreign key (workload_id, replica, run_epoch)
    references runs (workload_id, replica, run_epoch)
);
create unique index holds_device on holds (machine_id, device)
  where released_at is null and device <> '';
create index holds_open on holds (machine_id) where released_at is null;

create table workload_events (
  workload_id text not null references workloads (id),
  number bigint not null,
  at bigint not null,
  kind text not null constraint workload_events_kind check (kind in ('state', 'note')),
  event text,
  from_state text,
  to_state text,
  code text,
  details text not null,
  actor text not null,
  request_id text,
  primary key (workload_id, number)
);

create table endpoint_keys (
  id text primary key,
  tenant_id text not null references tenants (id),
  workload_id text not null references workloads (id),
  user_id text not null references users (id),
  hash text not null constraint endpoint_keys_hash unique,
  last_four text not null,
  created_at bigint not null,
  expires_at bigint,
  revoked_at bigint
);
create index endpoint_keys_of_workload on endpoint_keys (workload_id);

create table idempotency (
  principal text not null,
  key text not null,
  request_hash text not null,
  result text not null,
  created_at bigint not null,
  primary key (principal, key)
);
create index idempotency_oldest on idempotency (created_at);
`,
} as const;
