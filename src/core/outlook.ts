/**
 * What machines say to an ask, whatever is busy: each looked at once for all tenants that stand to
 * it alike, not once for each tenant.
 *
 * Invariants: the same answers as `suitable`; a machine that a tenant may not know of says nothing;
 * one whose rules name tenants is asked for each of them.
 */
import { type Ask, onlyMachine } from './ask.ts';
import type { Catalog } from './catalog.ts';
import type { ReasonCode } from './reasons.ts';
import { suitable } from './suitable.ts';
import { maySee, type TrustLevel, trustLevel } from './trust.ts';
import type { MachineDriver, MachineView } from './workload.ts';

/** The driver that would run it, or why there is none. */
export type Answer = MachineDriver | ReasonCode;

/** Machines are told by their place in the list. */
export type Outlook = {
  /** The candidates: all, or the one that it has to be. */
  readonly first: number;
  readonly end: number;
  /** Null for a machine that the tenant may not know of, and for one that is no candidate. */
  answer(at: number): Answer | null;
  /** Null where none would do. */
  driver(at: number): MachineDriver | null;
};

export type Outlooks = { of(ask: Ask, tenant_id: string): Outlook };

/** By this number less one an answer is kept; 0 is for who may not know of the machine. */
const stands: Readonly<Record<TrustLevel, number>> = { owner: 1, invited: 2, community: 3 };
const stands_known = 3;

/** `at`: where in the list a machine is. */
export function createOutlooks(
  machines: readonly MachineView[],
  at: ReadonlyMap<string, number>,
  catalog: Catalog,
): Outlooks {
  const byTenant = new Map<string, Uint8Array>();
  const byAsk = new Map<Ask, (Answer | undefined)[]>();

  /** How a tenant stands to every machine. */
  function standsOf(tenant_id: string): Uint8Array {
    let own = byTenant.get(tenant_id);
    if (own === undefined) {
      own = new Uint8Array(machines.length);
      for (const [index, machine] of machines.entries()) own[index] = standOf(tenant_id, machine);
      byTenant.set(tenant_id, own);
    }
    return own;
  }

  function answersOf(ask: Ask): (Answer | undefined)[] {
    let known = byAsk.get(ask);
    if (known === undefined) {
      known = new Array<undefined>(machines.length * stands_known).fill(undefined);
      byAsk.set(ask, known);
    }
    return known;
  }

  function ofAll(ask: Ask, tenant_id: string): Outlook['answer'] {
    const [own, answers] = [standsOf(tenant_id), answersOf(ask)];
    return (index) => {
      const [stand, machine] = [own[index] ?? 0, machines[index]];
      if (stand === 0 || machine === undefined) return null;
      if (machine.slugs !== undefined) return suitable(ask, tenant_id, machine, catalog);
      const slot = index * stands_known + stand - 1;
      const known = answers[slot];
      if (known !== undefined) return known;
      const answer = suitable(ask, tenant_id, machine, catalog);
      answers[slot] = answer;
      return answer;
    };
  }

  /** What has a home, or asks for one machine, runs there or nowhere. */
  function ofOne(ask: Ask, tenant_id: string, only: number): Outlook['answer'] {
    const machine = machines[only];
    const is_known = machine !== undefined && standOf(tenant_id, machine) > 0;
    const answer = is_known ? suitable(ask, tenant_id, machine, catalog) : null;
    return (index) => (index === only ? answer : null);
  }

  return {
    of(ask, tenant_id) {
      const id = onlyMachine(ask);
      const only = id === null ? null : (at.get(id) ?? -1);
      const answer = only === null ? ofAll(ask, tenant_id) : ofOne(ask, tenant_id, only);
      return {
        first: Math.max(0, only ?? 0),
        end: only === null ? machines.length : only + 1,
        answer,
        driver(index) {
          const said = answer(index);
          return typeof said === 'string' ? null : said;
        },
      };
    },
  };
}

function standOf(tenant_id: string, machine: MachineView): number {
  const trust = trustLevel(tenant_id, machine);
  return maySee(trust, machine) ? stands[trust] : 0;
}
