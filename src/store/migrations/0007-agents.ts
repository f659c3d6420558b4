/**
 * What keeps agents, restored stores and their doubles apart, and a clock that no step disturbs.
 */
export const agents = {
  version: 7,
  name: 'agents',
  text: `
alter table machines add column hello_id text;
alter table machines add column reconciled_epoch bigint not null default 0;
alter table machines add column fenced_at bigint;
alter table machines add column fenced_by text;
alter table workloads add column restored_epoch bigint not null default 0;
alter table idempotency add column round bigint not null default 0;
create index idempotency_round on idempotency (round);
drop index idempotency_oldest;
`,
} as const;
