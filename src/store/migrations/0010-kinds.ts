/**
 * What runs of every kind tell of themselves while they go on.
 */
export const kinds = {
  version: 10,
  name: 'kinds',
  text: `
alter table runs add column oom_kills bigint not null default 0;
`,
} as const;
