/**
 * Whether a control plane took what it should not have: a report that is not newer than one before
 * (I-09), or an agent an answer of a store older than one it has met (I-30).
 */
import type { Report, SyncReply } from '../../src/contract/sync.ts';
import type { ControlPlane } from './control-plane.ts';
import type { Story } from './story.ts';

export type Order = {
  arrives(there: ControlPlane, machine_id: string, report: Report): Arrived;
};

/** A report that has arrived. */
export type Arrived = {
  /** The control plane answers it. */
  answered(reply: SyncReply): void;
  /** The agent has the answer. */
  obeyed(reply: SyncReply): void;
};

type Place = { agent_epoch: number; seq: number };

export function createOrder(story: Story): Order {
  const newest = new WeakMap<ControlPlane, Map<string, Place>>();
  /** The latest store that each machine's agents had an answer of. */
  const met = new Map<string, number>();

  function isLate(there: ControlPlane, machine_id: string, report: Report): boolean {
    const of = newest.get(there) ?? new Map<string, Place>();
    newest.set(there, of);
    const before = of.get(machine_id) ?? { agent_epoch: 0, seq: 0 };
    const { agent_epoch, seq } = report;
    const is_newer =
      agent_epoch > before.agent_epoch || (agent_epoch === before.agent_epoch && seq > before.seq);
    if (is_newer) of.set(machine_id, { agent_epoch, seq });
    return !is_newer;
  }

  return {
    arrives(there, machine_id, report) {
      const is_late = isLate(there, machine_id, report);
      return {
        answered(reply) {
          if (reply.outcome !== 'accepted' || !is_late) return;
          story.violate('I-09', `report ${report.seq} of ${machine_id} is taken after a newer one`);
        },
        obeyed(reply) {
          // What is not of the store that greeted it, an agent does not obey.
          if (reply.outcome !== 'accepted' || reply.store_epoch !== report.store_epoch) return;
          const latest = met.get(machine_id) ?? 0;
          if (there.incarnation < latest) {
            story.violate('I-30', `${machine_id} obeys a store older than one it has met`);
          }
          met.set(machine_id, Math.max(latest, there.incarnation));
        },
      };
    },
  };
}
