/**
 * Parts of a rig that begin only when a test asks for them, and end with it.
 */
import type { ApiDeps } from '../../src/controlplane/api-deps.ts';
import { type Reclaims, startReclaims } from '../../src/controlplane/reclaim.ts';
import { openUse, type Use } from '../../src/controlplane/use.ts';
import { beginIdle } from '../../src/core/idle.ts';

export function rigLater(deps: Parameters<typeof openUse>[0]) {
  let use: Use | null = null;
  let reclaims: Reclaims | null = null;
  return {
    use: () => use,
    reclaims: () => reclaims,
    async startUse() {
      use ??= await openUse(deps);
      return use;
    },
    startReclaims() {
      reclaims ??= startReclaims(deps);
      return reclaims;
    },
    async stop() {
      await use?.stop();
      await reclaims?.stop();
    },
  };
}

/** Of them, what the API is given: nothing happens before they begin. */
export function laterDeps({
  use,
  reclaims,
}: Pick<ReturnType<typeof rigLater>, 'use' | 'reclaims'>): Pick<
  ApiDeps,
  'useOf' | 'samples' | 'waker' | 'lastUse' | 'reclaims'
> {
  return {
    reclaims: { wake: () => reclaims()?.wake() },
    lastUse: {
      of: (...of) => use()?.lastUse.of(...of) ?? { ...beginIdle(0), used_at: null },
      uses: (...of) => use()?.lastUse.uses(...of) ?? 0,
    },
    useOf: (...of) => use()?.useOf(...of) ?? null,
    samples: { recent: (...of) => use()?.samples.recent(...of) ?? [] },
    waker: { wake: async (...of) => use()?.waker.wake(...of) ?? { outcome: 'not_idle' } },
  };
}
