/**
 * Limits of keys, users and models, and keys that open several endpoints (ADR-0069).
 */
export const keyLimits = {
  version: 13,
  name: 'key-limits',
  text: `
-- a minute's requests and tokens, and requests at a time; null: no limit
alter table endpoint_keys add column rpm bigint;
alter table endpoint_keys add column tpm bigint;
alter table endpoint_keys add column concurrency bigint;

-- what a key opens beside its first endpoint
create table endpoint_key_models (
  key_id text not null references endpoint_keys (id),
  workload_id text not null references workloads (id),
  primary key (key_id, workload_id)
);
create index endpoint_key_models_of_workload on endpoint_key_models (workload_id);

-- of a user over all keys, or of an endpoint over all who ask; by id, for nothing reads both
create table request_limits (
  kind text not null constraint request_limits_kind check (kind in ('user', 'model')),
  subject_id text not null,
  tenant_id text not null references tenants (id),
  rpm bigint,
  tpm bigint,
  concurrency bigint,
  changed_at bigint not null,
  primary key (kind, subject_id)
);
create index request_limits_of_tenant on request_limits (tenant_id, kind, subject_id);
`,
} as const;
