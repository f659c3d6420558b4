/**
 * What a gateway needs of a rig: keys, endpoints and a balancer, as the program makes them.
 */
import { createTargets, type Targets } from '../../src/controlplane/targets.ts';
import type { Waker } from '../../src/controlplane/waker.ts';
import { type Balancer, createBalancer } from '../../src/gateway/balance/balancer.ts';
import type { Rig } from './rig.ts';

export function targetsOf(
  { apiDeps, asOf, presence, random, clock }: Rig,
  waker: Waker | null = null,
): Targets & { balancer: Balancer } {
  return {
    ...createTargets({ store: apiDeps.store, asOf, waker, presence }),
    balancer: createBalancer(random, clock),
  };
}
