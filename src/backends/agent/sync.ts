/**
 * The control plane's end of sync: takes an agent's report and answers with the machine's complete
 * desired state, at once where it changed, else after the hold (ADR-0016).
 *
 * Invariants: a report is stored before anything is held; one that is not newer than the last accepted
 * one changes nothing; a newer agent of the same machine ends an older one; a poll that changes
 * nothing writes nothing; one poll per machine is held, a newer one ends it.
 */
import { limits } from '../../contract/limits.ts';
import type { Hello, HelloReply, Report, SyncReply } from '../../contract/sync.ts';
import { desiredRuns } from '../../core/desired.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { createSignal, type Signal } from '../../lib/signal.ts';
import { readIdentity } from '../../store/accounts.ts';
import { findMachine } from '../../store/machines.ts';
import { runsOfMachine } from '../../store/runs.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import type { Presence } from './presence.ts';

/** What an agent calls: in process for Solo, over mTLS for others. */
export type SyncHandler = {
  /** Null for a machine that is not known (any more). */
  hello(machine_id: string, hello: Hello): Promise<HelloReply | null>;
  sync(machine_id: string, report: Report, signal: AbortSignal): Promise<SyncReply>;
  /** Wakes held polls: something may have changed what machines should run. */
  wake(): void;
  close(): void;
};

type Session = { agent_epoch: number; seq: number; applied: string; held: Signal; poll: number };

export function createSync(deps: {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  presence: Presence;
  /** Called when a report changed something that admission may care about. */
  changed: () => void;
}): SyncHandler {
  const { store, clock, presence } = deps;
  const sessions = new Map<string, Session>();
  let closed = false;

  async function hello(machine_id: string, words: Hello): Promise<HelloReply | null> {
    const greeted = await store.transact('greetMachine', {
      machine_id,
      boot_id: words.boot_id,
      name: words.inventory.name,
      offered: words.inventory.offered,
      inventory: JSON.stringify(words.inventory),
      now: clock.now(),
    });
    if (greeted === null) return null;
    presence.heard(machine_id);
    sessions.get(machine_id)?.held.notify();
    const { agent_epoch } = greeted;
    sessions.set(machine_id, { agent_epoch, seq: 0, applied: '', held: createSignal(), poll: 0 });
    deps.changed();
    const { store_uuid, store_epoch } = await store.read(readIdentity, {});
    return { store_uuid, store_epoch, agent_epoch };
  }

  async function sync(machine_id: string, report: Report, signal: AbortSignal): Promise<SyncReply> {
    const session = sessions.get(machine_id);
    if (session === undefined) return { outcome: 'hello_again' };
    if (report.agent_epoch !== session.agent_epoch || report.seq <= session.seq) {
      return { outcome: 'stale_agent' };
    }
    session.seq = report.seq;
    presence.heard(machine_id);
    await applyReported(machine_id, session, report);
    return holdUntilChanged(machine_id, session, report.have_generation, signal);
  }

  async function applyReported(machine_id: string, session: Session, report: Report) {
    const machine = await store.read(findMachine, { machine_id });
    const name = machine?.name ?? machine_id;
    if (report.inventory !== null) {
      const inventory = JSON.stringify(report.inventory);
      const { name, offered } = report.inventory;
      await store.transact('updateInventory', { machine_id, name, offered, inventory });
      deps.changed();
    }
    for (const run of report.observed) presence.setStages(run, run.stages);
    // Stages come and go without a write; what proves something is compared without them.
    const proof = JSON.stringify(report.observed.map((run) => ({ ...run, stages: [] })));
    if (proof === session.applied) return;
    const { changed } = await store.transact('applyReport', {
      machine_id,
      machine_name: name,
      observed: report.observed,
      now: clock.now(),
      actor: `machine:${name}`,
      request_id: null,
    });
    session.applied = proof;
    for (const run of report.observed) if (run.state === 'removed') presence.forget(run);
    if (changed > 0) deps.changed();
  }

  async function holdUntilChanged(
    machine_id: string,
    session: Session,
    have_generation: number,
    signal: AbortSignal,
  ): Promise<SyncReply> {
    const deadline = clock.monotonic() + limits.sync_hold_ms;
    const poll = ++session.poll;
    session.held.notify(); // an earlier poll of this machine ends
    const stop = AbortSignal.any([signal]);
    for (;;) {
      if (sessions.get(machine_id) !== session) return { outcome: 'stale_agent' };
      const machine = await store.read(findMachine, { machine_id });
      if (machine === undefined) return { outcome: 'hello_again' };
      const left = deadline - clock.monotonic();
      const fresh = machine.generation === have_generation;
      if (!fresh || left <= 0 || stop.aborted || closed || session.poll !== poll) {
        return answer(machine_id, machine.generation);
      }
      await session.held.wait(clock, left, stop);
    }
  }

  async function answer(machine_id: string, generation: number): Promise<SyncReply> {
    const { store_uuid, store_epoch } = await store.read(readIdentity, {});
    const rows = await store.read(runsOfMachine, { machine_id });
    const desired = desiredRuns(rows);
    return { outcome: 'accepted', store_uuid, store_epoch, generation, desired };
  }

  return {
    hello,
    sync,
    wake() {
      for (const session of sessions.values()) session.held.notify();
    },
    close() {
      closed = true;
      for (const session of sessions.values()) session.held.notify();
    },
  };
}
