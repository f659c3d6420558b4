/**
 * A backend on which nothing runs: for what never reaches a workload.
 */
import type { ApiDeps } from '../../src/controlplane/api-deps.ts';

export const idle_backend: ApiDeps['backend'] = {
  dial: async () => {
    throw new Error('nothing runs here');
  },
  logs: async () => ({ text: 'a line\n', next_offset: 7, end: false }),
  exec: async () => {
    throw new Error('nothing runs here');
  },
  files: async () => {
    throw new Error('nothing runs here');
  },
  connect: async () => {
    throw new Error('nothing runs here');
  },
};
