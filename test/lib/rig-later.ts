/**
 * Parts of a rig that begin only when a test asks for them, and end with it.
 */
import type { ApiDeps } from '../../src/controlplane/api-deps.ts';
import { type Reclaims, startReclaims } from '../../src/controlplane/reclaim.ts';
import { openRequestRecords, type RequestRecords } from '../../src/controlplane/request-records.ts';
import { openUse, type Use } from '../../src/controlplane/use.ts';
import { beginIdle } from '../../src/core/idle.ts';

export function rigLater(deps: Parameters<typeof openUse>[0]) {
  let use: Use | null = null;
  let reclaims: Reclaims | null = null;
  let requests: RequestRecords | null = null;
  return {
    use: () => use,
    reclaims: () => reclaims,
    requests: () => requests,
    starts: {
      async startUse() {
        use ??= await openUse(deps);
        return use;
      },
      startReclaims() {
        reclaims ??= startReclaims(deps);
        return reclaims;
      },
      async startRequests() {
        requests ??= await openRequestRecords(deps);
        return requests;
      },
    },
    async stop() {
      await requests?.stop();
      await use?.stop();
      await reclaims?.stop();
    },
  };
}

/** Of them, what the API is given: nothing happens before they begin. */
export function laterDeps({
  use,
  reclaims,
  requests,
}: Pick<ReturnType<typeof rigLater>, 'use' | 'reclaims' | 'requests'>): Pick<
  ApiDeps,
  'useOf' | 'samples' | 'waker' | 'lastUse' | 'reclaims' | 'requests'
> {
  return {
    reclaims: { wake: () => reclaims()?.wake() },
    requests: {
      now: () => requests()?.now() ?? [],
      window_ms: () => requests()?.window_ms() ?? 1000,
      journal: () => requests()?.journal() ?? { waiting: 0, oldest_ms: 0, lost: 0, unclean: 0 },
      metrics: () => requests()?.metrics() ?? '',
    },
    lastUse: {
      of: (...of) => use()?.lastUse.of(...of) ?? { ...beginIdle(0), used_at: null },
      uses: (...of) => use()?.lastUse.uses(...of) ?? 0,
    },
    useOf: (...of) => use()?.useOf(...of) ?? null,
    samples: { recent: (...of) => use()?.samples.recent(...of) ?? [] },
    waker: { wake: async (...of) => use()?.waker.wake(...of) ?? { outcome: 'not_idle' } },
  };
}
