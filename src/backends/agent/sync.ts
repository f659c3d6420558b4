/**
 * The control plane's end of sync: takes an agent's report and answers with the machine's complete
 * desired state, at once where it changed, else after the hold (ADR-0016).
 *
 * Invariants: a report is stored before anything is held; one that is not newer than the last
 * accepted one changes nothing; a newer agent of the same machine ends an older one; a poll that
 * changes nothing writes nothing; one poll per machine is held, a newer one ends it.
 */
import { limits } from '../../contract/limits.ts';
import type { Hello, HelloReply, Report, SyncReply } from '../../contract/sync.ts';
import { desiredRuns } from '../../core/desired.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { createSignal, type Signal } from '../../lib/signal.ts';
import { readIdentity } from '../../store/accounts.ts';
import { findMachine } from '../../store/machines.ts';
import type { MachineProof } from '../../store/proofs.ts';
import { runsOfMachine } from '../../store/runs.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import type { Presence } from './presence.ts';

/** What an agent calls: in process for Solo, over mTLS for others. */
export type SyncHandler = {
  /** Null for a machine that is not known (any more). */
  hello(machine_id: string, hello: Hello): Promise<HelloReply | null>;
  sync(machine_id: string, report: Report, signal: AbortSignal): Promise<SyncReply>;
  /** Until when each machine's agent said of its runs what the store has of them. */
  proofs(): MachineProof[];
  /** Wakes held polls: something may have changed what machines should run. */
  wake(): void;
  close(): void;
};

export type SyncDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  presence: Presence;
  /** Called when a report changed something that admission may care about. */
  changed: () => void;
};

/** What is known of one agent since its hello. */
type Session = {
  agent_epoch: number;
  seq: number;
  /** What its last stored report proved. */
  applied: string;
  /** When a report last said just that, on our monotonic clock. */
  proven_mono: number | null;
  held: Signal;
  /** Number of its newest poll. */
  poll: number;
};

type Context = SyncDeps & { sessions: Map<string, Session>; closed: boolean };

export function createSync(deps: SyncDeps): SyncHandler {
  const context: Context = { ...deps, sessions: new Map(), closed: false };
  const wake = () => {
    for (const session of context.sessions.values()) session.held.notify();
  };
  return {
    hello: (machine_id, words) => hello(context, machine_id, words),
    sync: (machine_id, report, signal) => sync(context, machine_id, report, signal),
    wake,
    proofs: () => proofsOf(context),
    close() {
      context.closed = true;
      wake();
    },
  };
}

async function hello(
  { store, clock, presence, sessions, changed }: Context,
  machine_id: string,
  words: Hello,
): Promise<HelloReply | null> {
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
  const held = createSignal();
  const begun = { seq: 0, applied: '', proven_mono: null, poll: 0 };
  sessions.set(machine_id, { ...begun, agent_epoch, held });
  changed();
  const { store_uuid, store_epoch } = await store.read(readIdentity, {});
  return { store_uuid, store_epoch, agent_epoch };
}

async function sync(
  context: Context,
  machine_id: string,
  report: Report,
  signal: AbortSignal,
): Promise<SyncReply> {
  const session = context.sessions.get(machine_id);
  if (session === undefined) return { outcome: 'hello_again' };
  if (report.agent_epoch !== session.agent_epoch || report.seq <= session.seq) {
    return { outcome: 'stale_agent' };
  }
  session.seq = report.seq;
  context.presence.heard(machine_id);
  await applyReported(context, machine_id, session, report);
  return holdUntilChanged(context, machine_id, session, report.have_generation, signal);
}

function proofsOf({ sessions }: Context): MachineProof[] {
  return [...sessions].flatMap(([machine_id, { proven_mono }]) =>
    proven_mono === null ? [] : [{ machine_id, mono: proven_mono }],
  );
}

async function applyReported(
  { store, clock, presence, changed }: Context,
  machine_id: string,
  session: Session,
  report: Report,
): Promise<void> {
  const machine = await store.read(findMachine, { machine_id });
  const machine_name = machine?.name ?? machine_id;
  if (report.inventory !== null) {
    const inventory = JSON.stringify(report.inventory);
    const { name, offered } = report.inventory;
    await store.transact('updateInventory', { machine_id, name, offered, inventory });
    changed();
  }
  for (const run of report.observed) {
    if (run.state === 'removed') presence.forget(run);
    else presence.setStages(run, run.stages);
  }
  // Stages come and go without a write; what proves something is compared without them.
  const proof = JSON.stringify(report.observed.map((run) => ({ ...run, stages: [] })));
  const mono = clock.monotonic();
  if (proof === session.applied) {
    session.proven_mono = mono;
    return;
  }
  const applied = await store.transact('applyReport', {
    machine_id,
    machine_name,
    observed: report.observed,
    now: clock.now(),
    mono,
    heard_mono: session.proven_mono,
    actor: `machine:${machine_name}`,
    request_id: null,
  });
  session.applied = proof;
  session.proven_mono = mono;
  if (applied.changed > 0) changed();
}

async function holdUntilChanged(
  context: Context,
  machine_id: string,
  session: Session,
  have_generation: number,
  signal: AbortSignal,
): Promise<SyncReply> {
  const { store, clock, sessions } = context;
  const deadline = clock.monotonic() + limits.sync_hold_ms;
  session.poll += 1;
  const { poll } = session;
  session.held.notify(); // an earlier poll of this machine ends
  for (;;) {
    if (sessions.get(machine_id) !== session) return { outcome: 'stale_agent' };
    const machine = await store.read(findMachine, { machine_id });
    if (machine === undefined) return { outcome: 'hello_again' };
    const left = deadline - clock.monotonic();
    const is_over = left <= 0 || signal.aborted || context.closed || session.poll !== poll;
    if (is_over || machine.generation !== have_generation) {
      return answer(store, machine_id, machine.generation);
    }
    await session.held.wait(clock, left, signal);
  }
}

async function answer(
  store: EinsoraStore,
  machine_id: string,
  generation: number,
): Promise<SyncReply> {
  const { store_uuid, store_epoch } = await store.read(readIdentity, {});
  const rows = await store.read(runsOfMachine, { machine_id });
  const desired = desiredRuns(rows);
  return { outcome: 'accepted', store_uuid, store_epoch, generation, desired };
}
