/**
 * Use of workloads, put together: what runs use, who uses them, what is stopped for being idle and
 * what is woken.
 */
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { startIdle } from './idle.ts';
import { openLastUse } from './last-use.ts';
import { createSamples } from './samples.ts';
import { createUseView } from './use-view.ts';
import { createWaker } from './waker.ts';

export type UseDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  /** Something was stopped or woken: admission and agents are to look. */
  changed(): void;
};

export type Use = Awaited<ReturnType<typeof openUse>>;

export async function openUse(deps: UseDeps) {
  const { store, clock, log, changed } = deps;
  const lastUse = await openLastUse({ store, clock, log });
  const samples = createSamples({ store, clock, log, told: lastUse.see });
  const waker = createWaker({ store, clock, log, woken: changed });
  const idle = startIdle({ store, clock, log, lastUse, parked: changed, wake: waker.wake });
  return {
    ...{ samples, lastUse, waker, idle },
    useOf: createUseView(samples, lastUse),
    async stop(): Promise<void> {
      await idle.stop();
      await samples.stop();
      await lastUse.stop();
    },
  };
}
