/**
 * What becomes of a run whose GPU is lost: it is ended, with why, instead of hanging on it.
 *
 * Invariants: only a GPU that is proven to be gone ends a run (fallen off the bus, or on no bus any
 * more), never one that could not be looked at; runs on other GPUs, and without any, go on.
 */
import type { GpuRecord } from '../contract/gpus.ts';
import type { Clock } from '../lib/clock.ts';
import { type BoundWork, failure, type Outcome } from './run-work.ts';

/** Lost GPUs of this machine by UUID, each with why. */
export type LostGpus = () => ReadonlyMap<string, string>;

const look_every_ms = 5_000;

export function lostAmong(gpus: readonly GpuRecord[]): Map<string, string> {
  return new Map(
    gpus.flatMap(({ uuid, state, model, reasons }) => {
      if (uuid === null || state !== 'missing') return [];
      const why = reasons[0]?.message ?? `${model} is not there any more`;
      return [[uuid, why.replace(/\.$/, '')] as const];
    }),
  );
}

/** The same work, whose watch ends where one of these GPUs is lost. */
export function endingWithGpus(
  work: BoundWork,
  uuids: readonly string[],
  lost: LostGpus,
  clock: Clock,
): BoundWork {
  if (uuids.length === 0) return work;
  return {
    ...work,
    async watch(driver, signal, tell) {
      const over = new AbortController();
      const both = AbortSignal.any([signal, over.signal]);
      try {
        const watching = work.watch(driver, both, tell);
        return await Promise.race([watching, untilLost(uuids, lost, clock, both)]);
      } finally {
        over.abort('it is over');
      }
    },
  };
}

/** Never resolves where it is called off: who watches says what became of the run then. */
async function untilLost(
  uuids: readonly string[],
  lost: LostGpus,
  clock: Clock,
  signal: AbortSignal,
): Promise<Outcome> {
  while (!signal.aborted) {
    const gone = lost();
    const why = uuids.map((uuid) => gone.get(uuid)).find((one) => one !== undefined);
    if (why !== undefined) return failure('run_lost_its_gpu', { why });
    await clock.sleep(look_every_ms, signal);
  }
  return new Promise(() => {});
}
