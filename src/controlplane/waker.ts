/**
 * Wakes what was stopped for being idle, and lets requests wait for it (ADR-0048).
 *
 * Invariants: who calls has found that the asker may use it; many requests wake it once and wait
 * together, by one look at the store at a time; a wait ends with its asker, with its time, or with
 * whatever else became of the workload.
 */
import { limits } from '../contract/limits.ts';
import type { Waiting } from '../gateway/stop.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { WakeResult } from '../store/idle.ts';
import { findTarget, type TargetRow } from '../store/keys.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type Waker = {
  wake(workload_id: string, how: string): Promise<WakeResult>;
  /** It was woken, and is not yet known to run. */
  isWaking(workload_id: string): boolean;
  /** Resolves once it runs or will not, at the latest `wake_hold_ms` after it was woken. */
  settled(workload_id: string, stop: Waiting): Promise<void>;
};

export type WakerDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  /** Admission is to look, and agents to hear of it. */
  woken(): void;
};

const look_ms = 250;

export function createWaker({ store, clock, log, woken }: WakerDeps): Waker {
  const waking = new Map<string, Promise<WakeResult>>();
  const looking = new Map<string, Promise<void>>();
  let held = 0;

  async function wakeIt(workload_id: string, how: string): Promise<WakeResult> {
    const result = await store.transact('wakeIdle', {
      ...{ now: clock.now(), mono: clock.monotonic(), actor: 'controller', request_id: null },
      ...{ workload_id, how },
    });
    log.info({ workload: workload_id, how, outcome: result.outcome }, 'an idle workload was asked');
    if (result.outcome !== 'woken') return result;
    woken();
    lookAfter(workload_id);
    return result;
  }

  function lookAfter(workload_id: string): void {
    if (looking.has(workload_id)) return;
    const look = lookUntilSettled(workload_id).finally(() => looking.delete(workload_id));
    looking.set(workload_id, look);
  }

  async function lookUntilSettled(workload_id: string): Promise<void> {
    const deadline = clock.monotonic() + limits.wake_hold_ms;
    while (clock.monotonic() < deadline) {
      const row = await store.read(findTarget, { workload_id }).catch(() => undefined);
      if (row === undefined || !isOnTheWay(row)) return;
      await clock.sleep(look_ms);
    }
  }

  return {
    wake(workload_id, how) {
      const begun = waking.get(workload_id) ?? wakeIt(workload_id, how);
      waking.set(workload_id, begun);
      return begun.finally(() => waking.delete(workload_id));
    },
    // Others see that it was woken before we hear of it.
    isWaking: (workload_id) => waking.has(workload_id) || looking.has(workload_id),
    async settled(workload_id, stop) {
      await waking.get(workload_id)?.catch(() => {});
      const look = looking.get(workload_id);
      if (look === undefined || held >= limits.wakes_held) return;
      held += 1;
      const done = new AbortController();
      const undo = stop.on(() => done.abort());
      try {
        await Promise.race([look, clock.sleep(limits.wake_hold_ms, done.signal)]);
      } finally {
        undo();
        done.abort();
        held -= 1;
      }
    },
  };
}

/** It comes by itself, or ends by itself first. */
function isOnTheWay({ state, run_epoch }: TargetRow): boolean {
  if (state === 'running') return run_epoch === null;
  return state !== 'stopped' && state !== 'failed' && state !== 'deleting';
}
