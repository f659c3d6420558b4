/**
 * Single requests by who asked, newest first. Nobody asks for those of a workload.
 */
export const requestsOfUser = {
  version: 16,
  name: 'requests-of-user',
  text: `
drop index requests_of_workload;
create index requests_of_user on requests (user_id, at, request_id);
`,
} as const;
