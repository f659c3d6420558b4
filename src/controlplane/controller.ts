/**
 * The controller: decides what waits. Its passes are woken by signals and by a timer, take no input and
 * are idempotent; the next pass is the retry.
 *
 * Invariants: a decision is made on a snapshot and carried out by a transaction that checks it again,
 * so a stale snapshot costs a pass, never a promise; a pass yields to the event loop between slices.
 */
import type { Presence } from '../backends/agent/presence.ts';
import { place } from '../core/placement.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { MachineView, Placement, WorkloadSpec } from '../core/workload.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { createSignal } from '../lib/signal.ts';
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

export function createController(deps: {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  presence: Presence;
  /** Called after a placement, so that the machine hears of it at once. */
  placed: () => void;
}): Controller {
  const { store, clock, log, presence } = deps;
  const signal = createSignal();
  const stopping = new AbortController();

  async function pass(): Promise<void> {
    const waiting = await store.read(listWaiting, { now: clock.now(), limit: waiting_limit });
    if (waiting.length === 0) return;
    const machines = await machineViews(store, presence, null);
    let slice_began = clock.monotonic();
    const work: Promise<unknown>[] = [];
    let placed = 0;
    for (const row of waiting) {
      const spec = JSON.parse(row.spec) as WorkloadSpec;
      const decision = place(spec, row.tenant_id, machines);
      if (decision.chosen !== null) {
        reserve(machines, decision.chosen, spec);
        placed += 1;
        work.push(store.transact('placeWorkload', placing(row, decision.chosen)));
      } else {
        const why = waitReason(decision.code ?? 'no_machine_matches', decision.refusals);
        if (isNews(row, why)) work.push(store.transact('queueWorkload', queueing(row, why)));
      }
      if (clock.monotonic() - slice_began >= slice_ms) {
        await clock.sleep(0);
        slice_began = clock.monotonic();
      }
    }
    await Promise.all(work);
    if (placed > 0) deps.placed();
  }

  const cause = () => ({ now: clock.now(), actor: 'controller', request_id: null });
  const placing = (row: { id: string; revision: number }, placement: Placement) => ({
    ...cause(),
    workload_id: row.id,
    revision: row.revision,
    placement,
  });
  const queueing = (row: { id: string; revision: number }, why: WaitReason) => ({
    ...cause(),
    workload_id: row.id,
    revision: row.revision,
    ...why,
  });

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await pass();
      } catch (error) {
        if (!stopping.signal.aborted) {
          log.error({ error: describeError(error) }, 'a pass of the controller failed');
        }
      }
      await signal.wait(clock, await untilNext(), stopping.signal);
    }
  }

  async function untilNext(): Promise<number> {
    const at = await store.read(nextAttempt, { now: clock.now() }).catch(() => null);
    return at === null ? period_ms : Math.max(1, Math.min(period_ms, at - clock.now()));
  }

  const running = loop();
  return {
    wake: () => signal.notify(),
    pass,
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

type WaitReason = { code: ReasonCode; details: Details };

/** One machine's own refusal says more than "no machine matches", where there is only one machine. */
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
