/**
 * The operator of a story: says that a machine is powered off, and changes who owns and who shares
 * it. Asks once; what did not arrive did not happen.
 */
import type { Sharing } from '../../src/core/trust.ts';
import type { Tenant } from './client.ts';
import type { ControlPlane } from './control-plane.ts';
import type { Link } from './link.ts';
import type { Story } from './story.ts';

export type Operator = {
  fence(machine_id: string, agent_epoch: number): void;
  share(machine_id: string, tenant: number, sharing: Sharing): void;
};

export function createOperator(
  story: Story,
  link: Link,
  tenants: readonly Tenant[],
  controlPlane: () => ControlPlane | null,
): Operator {
  function send(name: string, ask: (there: ControlPlane) => Promise<object>): void {
    link.send('up', () => {
      const there = controlPlane();
      if (there === null) return;
      const done = (answer: object) => {
        story.tell('operator', `${name}: ${JSON.stringify(answer)}`);
        there.wake();
      };
      ask(there).then(done, () => {});
    });
  }
  const causeOf = ({ clock }: ControlPlane) => ({
    ...{ now: clock.now(), mono: clock.monotonic(), actor: 'user:ada', request_id: 'r' },
  });
  return {
    fence: (machine_id, agent_epoch) =>
      send(`fence ${machine_id}`, (there) =>
        there.store.transact('fenceMachine', { ...causeOf(there), machine_id, agent_epoch }),
      ),
    share(machine_id, tenant, sharing) {
      const { tenant_id = '' } = tenants[tenant % tenants.length] ?? {};
      send(`share ${machine_id} ${sharing} ${tenant_id}`, (there) =>
        there.store.transact('shareMachine', {
          ...causeOf(there),
          ...{ machine_id, tenant_id, sharing },
        }),
      );
    },
  };
}
