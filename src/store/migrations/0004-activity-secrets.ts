/**
 * The activity log, and sealed secrets.
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
  actor text not null,
  via text not null,
  proof_id text,
  request_id text not null,
  route text not null,
  target text,
  outcome text not null,
  details text not null
);
create index activity_newest on activity (tenant_id, at, id);
create index activity_of_request on activity (request_id);
`,
} as const;
