/**
 * The controller: decides what waits. Its passes are woken by signals and by a timer, take no input
 * and are idempotent; the next pass is the retry.
 *
 * Invariants: a decision is made on a snapshot and carried out by a transaction that checks it
 * again, so a stale snapshot costs a pass, never a promise; a pass yields to the event loop between
 * slices; a transaction that fails keeps no other one from being tried.
 */
import type { Presence } from '../backends/agent/presence.ts';
import { place } from '../core/placement.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { MachineView, Placement, WorkloadSpec } from '../core/workload.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { createSignal, type Signal } from '../lib/signal.ts';
import { listWaiting, nextAttempt } from '../store/machines.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { machineViews } from './machine-views.ts';

export type Controller = {
  /** Something changed that may let a workload be placed. */
  wake(): void;
  /** Runs one pass now (tests, and the loop itself). */
  pass(): Promise<void>;
  stop(): Promise<void>;
};

const period_ms = 5000;
const slice_ms = 3;
const waiting_limit = 10_000;

export type ControllerDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  presence: Presence;
  /** Called after a placement, so that the machine hears of it at once. */
  placed: () => void;
};

export function createController(deps: ControllerDeps): Controller {
  const signal = createSignal();
  const stopping = new AbortController();
  const running = loop(deps, signal, stopping.signal);
  return {
    wake: () => signal.notify(),
    pass: () => pass(deps),
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

async function loop(deps: ControllerDeps, signal: Signal, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    try {
      await pass(deps);
    } catch (error) {
      if (!stopping.aborted) {
        deps.log.error({ error: describeError(error) }, 'a pass of the controller failed');
      }
    }
    await signal.wait(deps.clock, await untilNext(deps), stopping);
  }
}

async function untilNext({ store, clock }: ControllerDeps): Promise<number> {
  const at = await store.read(nextAttempt, { now: clock.now() }).catch(() => null);
  return at === null ? period_ms : Math.max(1, Math.min(period_ms, at - clock.now()));
}

async function pass(deps: ControllerDeps): Promise<void> {
  const { store, clock, presence } = deps;
  const waiting = await store.read(listWaiting, { now: clock.now(), limit: waiting_limit });
  if (waiting.length === 0) return;
  const machines = await machineViews(store, presence, null);
  let slice_began = clock.monotonic();
  const work: Promise<{ placed: boolean }>[] = [];
  for (const row of waiting) {
    const done = decide(deps, row, machines);
    if (done !== null) work.push(done);
    if (clock.monotonic() - slice_began >= slice_ms) {
      await clock.sleep(0);
      slice_began = clock.monotonic();
    }
  }
  const results = await Promise.allSettled(work);
  if (results.some((one) => one.status === 'fulfilled' && one.value.placed)) deps.placed();
  const failed = results.find((one) => one.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

type WaitingRow = Awaited<ReturnType<typeof listWaiting>>[number];

/** Begins the one transaction that a waiting workload needs; null where there is no news. */
function decide(
  { store, clock }: ControllerDeps,
  row: WaitingRow,
  machines: MachineView[],
): Promise<{ placed: boolean }> | null {
  const spec = JSON.parse(row.spec) as WorkloadSpec;
  const decision = place(spec, row.tenant_id, machines);
  const { id: workload_id, revision } = row;
  const cause = { now: clock.now(), actor: 'controller', request_id: null };
  const args = { ...cause, workload_id, revision };
  if (decision.chosen !== null) {
    reserve(machines, decision.chosen, spec);
    return store
      .transact('placeWorkload', { ...args, placement: decision.chosen })
      .then(({ outcome }) => ({ placed: outcome === 'placed' }));
  }
  const why = waitReason(decision.code ?? 'no_machine_matches', decision.refusals);
  if (!isNews(row, why)) return null;
  return store.transact('queueWorkload', { ...args, ...why }).then(() => ({ placed: false }));
}

type WaitReason = { code: ReasonCode; details: Details };

/** Where there is only one machine, its own refusal says more than "no machine matches". */
function waitReason(
  code: ReasonCode,
  refusals: { code: ReasonCode; details: Details }[],
): WaitReason {
  const only = refusals.length === 1 ? refusals[0] : undefined;
  return only === undefined
    ? { code, details: { machines: refusals.length } }
    : { code: only.code, details: only.details };
}

function isNews(row: { state: string; code: string | null; details: string }, why: WaitReason) {
  return (
    row.state === 'pending' || row.code !== why.code || row.details !== JSON.stringify(why.details)
  );
}

/** Counts a placement of this pass into the snapshot, so the next one sees what is left. */
function reserve(machines: MachineView[], chosen: Placement, spec: WorkloadSpec): void {
  const machine = machines.find((entry) => entry.id === chosen.machine_id);
  if (machine === undefined) return;
  machine.held.cpu_millis += spec.cpu_millis;
  machine.held.memory_bytes += spec.memory_bytes;
  machine.held.disk_bytes += spec.disk_bytes;
  machine.holders.push(spec.name);
}
