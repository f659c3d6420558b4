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
`,
} as const;
