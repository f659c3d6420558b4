/**
 * Parts of a rig that begin only when a test asks for them, and end with it.
 */
import { type Reclaims, startReclaims } from '../../src/controlplane/reclaim.ts';
import { openUse, type Use } from '../../src/controlplane/use.ts';

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
