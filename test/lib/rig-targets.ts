/**
 * What a gateway needs of a rig: keys, endpoints and a balancer, as the program makes them.
 */
import { createTargets, type Targets } from '../../src/controlplane/targets.ts';
import type { Waker } from '../../src/controlplane/waker.ts';
import type { Balancer } from '../../src/gateway/balance/balancer.ts';
import type { Rig } from './rig.ts';

export function targetsOf(
  { apiDeps, asOf, presence, clock }: Rig,
  waker: Waker | null = null,
): Targets & { balancer: Balancer } {
  return {
    ...createTargets({ store: apiDeps.store, asOf, waker, presence, clock }),
    // The rig's own, of which its API shows the looks.
    balancer: apiDeps.balancer as Balancer,
  };
}
