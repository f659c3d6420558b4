/**
 * The operator of a story: says that a machine is powered off, gives it to others, shares it,
 * drains it and limits what it offers. Asks once; what did not arrive did not happen.
 */
import type { Sharing } from '../../src/core/trust.ts';
import { findMachine } from '../../src/store/machines.ts';
import type { Tenant } from './client.ts';
import type { ControlPlane } from './control-plane.ts';
import type { Link } from './link.ts';
import type { ReclaimAsked } from './schedule.ts';
import type { Story } from './story.ts';

export type Operator = {
  fence(machine_id: string, agent_epoch: number): void;
  /** Gives it to the tenant, who takes it at once, and shares it so. */
  share(machine_id: string, tenant: number, sharing: Sharing): void;
  /** Invites a tenant, or takes that back. */
  invite(machine_id: string, tenant: number, is_invited: boolean): void;
  drain(machine_id: string, drained: boolean, stop: boolean): void;
  limit(machine_id: string, memory_bytes: number | null): void;
  reclaim(machine_id: string, asked: ReclaimAsked): void;
  release(machine_id: string): void;
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
  const tenantOf = (nth: number): Partial<Tenant> => tenants[nth % tenants.length] ?? {};
  return {
    fence: (machine_id, agent_epoch) =>
      send(`fence ${machine_id}`, (there) =>
        there.store.transact('fenceMachine', { ...causeOf(there), machine_id, agent_epoch }),
      ),
    share(machine_id, tenant, sharing) {
      const { tenant_id = '', name: slug = '' } = tenantOf(tenant);
      send(`share ${machine_id} ${sharing} ${tenant_id}`, async (there) => {
        const { store } = there;
        const given = { ...(await ownOf(there, machine_id)), to: slug };
        await store.transact('giveMachine', given);
        const args = { ...causeOf(there), machine_id, tenant_id };
        await store.transact('drainMachine', { ...args, drained: 0, stop: 0 });
        return store.transact('shareMachine', { ...args, ...unchanged, sharing });
      });
    },
    invite(machine_id, tenant, is_invited) {
      const { name: slug = '' } = tenantOf(tenant);
      send(`${is_invited ? 'invite' : 'uninvite'} ${slug} to ${machine_id}`, async (there) =>
        there.store.transact('shareMachine', {
          ...{ ...(await ownOf(there, machine_id)), ...unchanged },
          ...(is_invited ? { invite: [slug] } : { uninvite: [slug] }),
        }),
      );
    },
    drain: (machine_id, drained, stop) =>
      send(`drain ${machine_id} ${drained} ${stop}`, async (there) =>
        there.store.transact('drainMachine', {
          ...(await ownOf(there, machine_id)),
          ...{ drained: drained ? 1 : 0, stop: stop ? 1 : 0 },
        }),
      ),
    limit: (machine_id, memory_bytes) =>
      send(`limit ${machine_id} to ${memory_bytes}`, async (there) =>
        there.store.transact('limitMachine', {
          ...(await ownOf(there, machine_id)),
          caps: { memory_bytes },
        }),
      ),
    reclaim: (machine_id, asked) =>
      send(`reclaim ${machine_id}`, async (there) =>
        there.store.transact('reclaimMachine', {
          ...(await ownOf(there, machine_id)),
          ...{ ...reclaimOf(asked, there.clock.now()), by: 'ada', guard: null },
        }),
      ),
    release: (machine_id) =>
      send(`release ${machine_id}`, async (there) =>
        there.store.transact('releaseMachine', await ownOf(there, machine_id)),
      ),
  };
}

/** Whoever owns it by then asks. */
async function ownOf(there: ControlPlane, machine_id: string) {
  const row = await there.store.read(findMachine, { machine_id });
  return { ...causeOf(there), machine_id, tenant_id: row?.tenant_id ?? '' };
}

function causeOf({ clock }: ControlPlane) {
  return { now: clock.now(), mono: clock.monotonic(), actor: 'user:ada', request_id: 'r' };
}

function reclaimOf({ scope, when, after_ms, grace_ms, until_ms }: ReclaimAsked, now: number) {
  const start =
    when === 'in'
      ? { when, in_ms: after_ms }
      : when === 'at'
        ? { when, at: now + after_ms }
        : { when };
  return { start, scope, grace_ms, until: until_ms === null ? null : now + until_ms };
}

const unchanged = {
  ...{ is_operator: 0, sharing: null, guest_limit: 100 },
  ...{ invite: [], uninvite: [] },
};
