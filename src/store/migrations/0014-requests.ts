/**
 * Requests that the gateway answered or refused, their sums by day, and the journal that they come
 * from (ADR-0070). An empty text in `request_days` means that there is none.
 */
import { first_token_buckets } from '../../core/first-token.ts';

const buckets = Array.from(
  { length: first_token_buckets },
  (_, bucket) => `  first_${bucket} bigint not null,\n`,
).join('');

export const requests = {
  version: 14,
  name: 'requests',
  text: `
create table requests (
  request_id text primary key,
  at bigint not null,
  key_id text not null,
  tenant_id text not null,
  user_id text,
  workload_id text,
  replica bigint,
  run_epoch bigint,
  machine_id text,
  placed_class text,
  model text not null,
  api text not null,
  is_stream smallint not null constraint requests_is_stream check (is_stream in (0, 1)),
  outcome text not null,
  status bigint,
  code text,
  attempts bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cached_tokens bigint not null,
  is_estimated smallint not null constraint requests_is_estimated check (is_estimated in (0, 1)),
  waited_ms bigint not null,
  first_token_ms bigint,
  duration_ms bigint not null
);
create index requests_of_tenant on requests (tenant_id, at, request_id);
create index requests_of_key on requests (key_id, at, request_id);
create index requests_of_workload on requests (workload_id, at, request_id)
  where workload_id is not null;

create table request_days (
  tenant_id text not null,
  day bigint not null,
  key_id text not null,
  workload_id text not null,
  model text not null,
  outcome text not null,
  user_id text not null,
  requests bigint not null,
  attempts bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cached_tokens bigint not null,
  estimated bigint not null,
  duration_ms bigint not null,
${buckets}  primary key (tenant_id, day, key_id, workload_id, model, outcome)
);
create index request_days_of_workload on request_days (workload_id, day);

create table request_journal (
  id bigint primary key constraint request_journal_one check (id = 1),
  is_open smallint not null constraint request_journal_is_open check (is_open in (0, 1)),
  written_at bigint not null,
  lost bigint not null,
  unclean bigint not null
);
`,
} as const;
