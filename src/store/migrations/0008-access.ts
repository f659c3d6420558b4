/**
 * Tickets that open the site of a workload once, and the access sessions that they become.
 */
export const access = {
  version: 8,
  name: 'access',
  text: `
create table access_tickets (
  hash text primary key,
  workload_id text not null references workloads (id),
  run_epoch bigint not null,
  host text not null,
  user_id text not null references users (id),
  proof_id text not null,
  created_at bigint not null,
  expires_at bigint not null,
  used_at bigint
);
create index access_tickets_oldest on access_tickets (expires_at);
create index access_tickets_user on access_tickets (user_id, created_at);

create table access_sessions (
  id text primary key,
  hash text not null constraint access_sessions_hash unique,
  workload_id text not null references workloads (id),
  run_epoch bigint not null,
  host text not null,
  user_id text not null references users (id),
  proof_id text not null,
  created_at bigint not null,
  expires_at bigint not null
);
create index access_sessions_oldest on access_sessions (expires_at);
create index access_sessions_user on access_sessions (user_id, created_at);
`,
} as const;
