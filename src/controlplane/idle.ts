/**
 * Stops what nobody uses, where its creator asked for that (ADR-0048).
 *
 * Invariants: decided by core/idle.ts, carried out by a transaction that checks it again; who comes
 * while it is being stopped wakes it at once; a look that fails is left to the next one.
 */
import { limits } from '../contract/limits.ts';
import { judgeIdle } from '../core/idle.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { type IdleRow, listIdlers } from '../store/idle.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { LastUse } from './last-use.ts';

export type IdleDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  lastUse: Pick<LastUse, 'of' | 'uses' | 'warned'>;
  /** Agents are to hear of it. */
  parked(): void;
  wake(workload_id: string, how: string): Promise<unknown>;
};

const page_rows = 500;

export function startIdle(deps: IdleDeps) {
  const { clock, log } = deps;
  const stopping = new AbortController();

  async function loop(): Promise<void> {
    for (;;) {
      await clock.sleep(limits.idle_look_ms, stopping.signal);
      if (stopping.signal.aborted) return;
      try {
        await look(deps);
      } catch (error) {
        log.warn({ error: describeError(error) }, 'idle workloads were not looked at');
      }
    }
  }

  const running = loop();
  return {
    look: () => look(deps),
    async stop(): Promise<void> {
      stopping.abort();
      await running;
    },
  };
}

async function look(deps: IdleDeps): Promise<void> {
  for (let after = ''; ; ) {
    const rows = await deps.store.read(listIdlers, { after, limit: page_rows });
    for (const row of rows) await judge(deps, row);
    const last = rows.at(-1);
    if (last === undefined || rows.length < page_rows) return;
    after = last.id;
  }
}

async function judge(deps: IdleDeps, row: IdleRow): Promise<void> {
  const { store, clock, lastUse } = deps;
  const { id: workload_id, run_epoch, counted_epoch, idle_after_ms: after_ms } = row;
  const state = lastUse.of(workload_id, counted_epoch);
  const decision = judgeIdle(state, after_ms, limits.idle_warning_ms);
  if (decision.do === 'nothing') return;
  const cause = {
    ...{ now: clock.now(), mono: clock.monotonic(), actor: 'controller', request_id: null },
    ...{ workload_id, run_epoch, after_ms },
  };
  if (decision.do === 'warn') {
    lastUse.warned(workload_id, counted_epoch);
    await store.transact('noteIdleSoon', { ...cause, left_ms: decision.left_ms });
    return;
  }
  const before = lastUse.uses(workload_id);
  const { outcome } = await store.transact('parkIdle', cause);
  if (outcome !== 'parked') return;
  deps.log.info({ workload: workload_id, after_ms }, 'stopped for being idle');
  deps.parked();
  if (lastUse.uses(workload_id) !== before) {
    await deps.wake(workload_id, 'a request came while it was being stopped');
  }
}
