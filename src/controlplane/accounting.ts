/**
 * Accounting: twice a minute, while anything is measured, the ledger hears which machines prove
 * that their runs run, and how late it is (ADR-0029).
 *
 * Invariants: a machine that was not heard of proves nothing; with nothing measured nothing is
 * written; a round that fails is left to the next one.
 */
import { formatDuration } from '../core/format.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { hasOpenIntervals, type MachineProof } from '../store/proofs.ts';
import type { EinsoraStore } from '../store/transactions.ts';

const every_ms = 30_000;

export type AccountingDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  /** Until when each machine's agent said of its runs what the store has of them. */
  proofs: () => MachineProof[];
};

export type Accounting = { round(): Promise<void>; stop(): Promise<void> };

/** Begins the ledger's clock of this process, and then the rounds. */
export async function startAccounting(deps: AccountingDeps): Promise<Accounting> {
  const { store, clock, log } = deps;
  const begun = await store.transact('startLedgerClock', instant(clock));
  tellStep(log, begun.stepped_ms);
  const stopping = new AbortController();
  const running = loop(deps, stopping.signal);
  return {
    round: () => round(deps),
    async stop() {
      stopping.abort();
      await running;
      await round(deps).catch(() => {}); // the next process counts on from here
    },
  };
}

async function loop(deps: AccountingDeps, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    await deps.clock.sleep(every_ms, stopping);
    if (stopping.aborted) return;
    try {
      await round(deps);
    } catch (error) {
      deps.log.warn({ error: describeError(error) }, 'accounting failed');
    }
  }
}

async function round({ store, clock, log, proofs }: AccountingDeps): Promise<void> {
  const args = { ...instant(clock), proofs: proofs() };
  // What a machine proves is measured; without a proof something may be held all the same.
  if (args.proofs.length === 0 && !(await store.read(hasOpenIntervals, {}))) return;
  const { stepped_ms } = await store.transact('proveRunning', args);
  tellStep(log, stepped_ms);
}

function instant(clock: Clock): { now: number; mono: number } {
  return { now: clock.now(), mono: clock.monotonic() };
}

function tellStep(log: Log, stepped_ms: number): void {
  if (stepped_ms === 0) return;
  const moved = `${stepped_ms < 0 ? '-' : '+'}${formatDuration(Math.abs(stepped_ms))}`;
  log.warn({ stepped_ms }, `the wall clock moved by ${moved}; usage is counted without that`);
}
