/**
 * Which models are kept on which machine, and what each machine is still to do about one: a wish
 * has a number, and is carried out once the machine has said that number.
 */
export const modelFiles = {
  version: 5,
  name: 'model-files',
  text: `
create table model_files (
  machine_id text not null references machines (id),
  id text not null,
  tenant_id text not null references tenants (id),
  source text not null,
  wish text not null check (wish in ('none', 'fetch', 'check', 'remove')),
  wish_number bigint not null,
  done_wish bigint not null,
  state text not null check (state in ('queued', 'fetching', 'ready', 'failed', 'removing')),
  format text,
  revision text,
  sha256 text,
  bytes bigint,
  code text,
  details text not null,
  checked text,
  created_at bigint not null,
  primary key (machine_id, id)
);
create unique index model_files_id on model_files (id);
create index model_files_of_tenant on model_files (tenant_id, machine_id, source, id);
`,
} as const;
