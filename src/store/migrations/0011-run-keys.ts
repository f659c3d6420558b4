/**
 * Keys by which runs call the gateway: of a run, made anew for each, gone with it.
 */
export const runKeys = {
  version: 11,
  name: 'run-keys',
  text: `
create table run_keys (
  workload_id text not null,
  replica bigint not null,
  run_epoch bigint not null,
  hash text not null constraint run_keys_hash unique,
  created_at bigint not null,
  primary key (workload_id, replica, run_epoch),
  foreign key (workload_id, replica, run_epoch)
    references runs (workload_id, replica, run_epoch)
);
`,
} as const;
