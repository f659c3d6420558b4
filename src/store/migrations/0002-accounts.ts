/**
 * Accounts: passwords, invitations, tokens that are narrower than their user.
 *
 * `scopes` of a token is null where it is not narrowed, else the scopes with spaces between; `role`
 * is null where it is whatever its user has. `purpose` of a link is `sign-in` or `reset`;
 * `session_until` is the latest end of a session that a sign-in link opens, `maker_id` the admin
 * who made a reset link.
 */
export const accounts = {
  version: 2,
  name: 'accounts',
  text: `
alter table tenants add column disabled_at bigint;
alter table users add column password text;
alter table tokens add column role text;
alter table tokens add column scopes text;
alter table tokens add column last_used_at bigint;
alter table sessions add column client text not null default '';
alter table sessions add column signed_in_by text not null default 'link';
alter table sign_in_links add column purpose text not null default 'sign-in';
alter table sign_in_links add column session_until bigint;
alter table sign_in_links add column maker_id text;

create unique index users_name on users (name);
create index users_of_tenant on users (tenant_id, id);
create index tokens_of_user on tokens (user_id, id);
create index sessions_of_user on sessions (user_id, id);
create index sign_in_links_of_user on sign_in_links (user_id);

create table invitations (
  id text primary key,
  tenant_id text not null references tenants (id),
  role text not null constraint invitations_role
    check (role in ('viewer', 'member', 'tenant-admin', 'operator')),
  hash text not null constraint invitations_hash unique,
  inviter_id text not null references users (id),
  created_at bigint not null,
  expires_at bigint not null,
  used_at bigint,
  used_by text references users (id),
  revoked_at bigint
);
create index invitations_of_tenant on invitations (tenant_id, id);
`,
} as const;
