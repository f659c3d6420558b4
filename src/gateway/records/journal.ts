/**
 * The journal of requests: in memory, on its way to the store (ADR-0070).
 *
 * Invariants: what is added is written within `limits.request_journal_ms`, or as soon as a batch is
 * full; one writing at a time, in the order of adding; what the store could not take is kept and
 * tried again, more slowly; at its cap the oldest that wait are dropped and counted; what the store
 * refuses for what it is (a defect) is dropped and counted too, so that it holds up nothing. Adding
 * never waits and never throws. Only what is here when the machine loses its power is lost
 * uncounted; that this happened is seen at the next start.
 */
import { limits } from '../../contract/limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import { StoreError } from '../../store/sql.ts';
import type { RequestRecord } from '../request-record.ts';

export type JournalStanding = {
  /** Records that are not written yet, and how long the oldest of them waits. */
  waiting: number;
  oldest_ms: number;
  /** Lost so far, ever. */
  lost: number;
};

export type Journal = {
  add(record: RequestRecord): void;
  standing(): JournalStanding;
  /** Writes what is there, as far as the store takes it, and nothing after it. */
  stop(): Promise<void>;
};

export type JournalDeps = {
  /** Resolves once they are durable; all of them or none. The same may be given again. */
  write(records: readonly RequestRecord[], lost: number): Promise<void>;
  /** Lost before this process. */
  lost: number;
  clock: Pick<Clock, 'monotonic' | 'after'>;
  log: Log;
};

type Waiting = { record: RequestRecord; since: number };

export function createJournal({ write, lost: lost_before, clock, log }: JournalDeps): Journal {
  let lost = lost_before;
  let waiting: Waiting[] = [];
  /** Given to the store, which has not answered. */
  let flying: Waiting[] = [];
  let writing: Promise<boolean> | null = null;
  let cancel: (() => void) | null = null;
  let failures = 0;
  let is_stopped = false;

  function bound(): void {
    const over = flying.length + waiting.length - limits.request_journal_records;
    if (over > 0) lost += waiting.splice(0, over).length;
  }

  function wait(ms: number): void {
    if (cancel !== null || is_stopped) return;
    cancel = clock.after(ms, () => {
      cancel = null;
      if (writing === null) void flush();
    });
  }

  /** Writes one batch; false where the store did not take it. */
  function flush(): Promise<boolean> {
    cancel?.();
    cancel = null;
    flying = waiting.slice(0, limits.request_batch);
    waiting = waiting.slice(flying.length);
    writing = write(
      flying.map(({ record }) => record),
      lost,
    )
      .then(
        () => written(),
        (error: unknown) => failed(error),
      )
      .finally(() => {
        writing = null;
        if (waiting.length >= limits.request_batch && failures === 0 && !is_stopped) void flush();
        else if (waiting.length > 0) wait(pause(failures));
      });
    return writing;
  }

  function written(): boolean {
    if (failures > 0) log.info({ waiting: waiting.length }, 'requests are recorded again');
    failures = 0;
    flying = [];
    return true;
  }

  function failed(error: unknown): boolean {
    const problem = describeError(error);
    if (isRefusal(error)) {
      lost += flying.length;
      log.error({ problem, lost, records: flying.length }, 'records of requests were refused');
      flying = [];
      return true;
    }
    failures += 1;
    waiting = [...flying, ...waiting];
    flying = [];
    bound();
    log.warn({ problem, waiting: waiting.length, lost }, 'requests could not be recorded yet');
    return false;
  }

  return {
    add(record) {
      if (is_stopped) {
        lost += 1;
        return;
      }
      waiting.push({ record, since: clock.monotonic() });
      bound();
      if (writing !== null) return;
      if (waiting.length >= limits.request_batch && failures === 0) void flush();
      else wait(pause(failures));
    },
    standing() {
      const oldest = flying[0] ?? waiting[0];
      const oldest_ms = oldest === undefined ? 0 : clock.monotonic() - oldest.since;
      return { waiting: flying.length + waiting.length, oldest_ms, lost };
    },
    async stop() {
      is_stopped = true;
      await writing;
      let goes_on = true;
      while (goes_on && waiting.length > 0) goes_on = await flush();
      cancel?.();
      cancel = null;
      lost += waiting.length;
      if (waiting.length > 0) log.error({ lost }, 'records of requests are lost: no store');
      waiting = [];
    },
  };
}

/** Longer with each failure in a row. */
function pause(failures: number): number {
  if (failures === 0) return limits.request_journal_ms;
  const longer = limits.request_journal_ms * 2 ** Math.min(failures, 10);
  return Math.min(longer, limits.request_journal_retry_ms);
}

/** Would the same be refused again? A full or failing store may take it later. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof StoreError)) return false;
  return !['store_full', 'store_failing', 'outcome_unknown'].includes(error.code);
}
