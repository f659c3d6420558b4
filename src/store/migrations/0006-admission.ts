/**
 * What admission needs to look at ten thousand waiting workloads in one pass.
 */
export const admission = {
  version: 6,
  name: 'admission',
  text: `
create index workloads_of_state on workloads (state);
`,
} as const;
