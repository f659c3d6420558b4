/**
 * Further names of endpoints.
 */
export const aliases = {
  version: 15,
  name: 'aliases',
  text: `
create table endpoint_aliases (
  tenant_id text not null references tenants (id),
  name text not null,
  workload_id text not null references workloads (id),
  created_at bigint not null,
  primary key (tenant_id, name)
);
create index endpoint_aliases_of_workload on endpoint_aliases (workload_id);
`,
} as const;
