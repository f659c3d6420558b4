/**
 * The activity log, and sealed secrets.
 *
 * `seq`, `salt` and `commitment` of a row are written once, by the sealer; who acted and with what
 * details stands behind the salted commitment, so that it can be erased and the chain still holds.
 */
export const activitySecrets = {
  version: 4,
  name: 'activity-secrets',
  text: `
create table activity (
  id text primary key,
  tenant_id text not null references tenants (id),
  at bigint not null,
  user_id text,
  actor text,
  via text not null,
  proof_id text,
  request_id text not null,
  client_request_id text,
  route text not null,
  target text,
  outcome text not null,
  details text not null,
  seq bigint,
  salt text,
  commitment text
);
create index activity_newest on activity (tenant_id, at, id);
create index activity_of_request on activity (request_id);
create index activity_of_user on activity (user_id) where user_id is not null;
create index activity_unsealed on activity (tenant_id, at, id) where seq is null;
create index activity_of_target on activity (target) where outcome = 'done';
create unique index activity_seq on activity (tenant_id, seq) where seq is not null;

create table activity_seals (
  tenant_id text not null references tenants (id),
  number bigint not null,
  at bigint not null,
  first_seq bigint not null,
  last_seq bigint not null,
  hash text not null,
  primary key (tenant_id, number)
);
create index activity_seals_at on activity_seals (tenant_id, at, number);

create index workload_events_of_request on workload_events (request_id)
  where request_id is not null;

create table secrets (
  id text primary key,
  tenant_id text not null references tenants (id),
  name text not null,
  key_id text not null,
  nonce text not null,
  sealed text not null,
  user_id text not null references users (id),
  created_at bigint not null,
  updated_at bigint not null,
  constraint secrets_name unique (tenant_id, name)
);
`,
} as const;
