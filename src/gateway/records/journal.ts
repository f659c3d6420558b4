/**
 * The journal of requests: in memory, on its way to the store (ADR-0070).
 *
 * Invariants: what is added is written within `limits.request_journal_ms`, or as soon as a batch is
 * full; one writing at a time, in the order of adding; what the store could not take is kept and
 * tried again, more slowly; what the store refuses for what it is (a defect) is dropped and
 * counted, so that it holds up nothing. Adding never waits and never throws. Only what is here when
 * the machine loses its power is lost uncounted; that this happened is seen at the next start.
 */
import { limits } from '../../contract/limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import { StoreError } from '../../store/sql.ts';
import type { RequestRecord } from '../request-record.ts';
import { type Backlog, type BacklogStanding, createBacklog } from './backlog.ts';

export type Journal = {
  add(record: RequestRecord): void;
  standing(): BacklogStanding;
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

export function createJournal({ write, lost, clock, log }: JournalDeps): Journal {
  const backlog = createBacklog(lost, clock.monotonic);
  let writing: Promise<boolean> | null = null;
  let cancel = () => {};
  let is_waiting = false;
  let failures = 0;
  let is_stopped = false;

  function wait(): void {
    if (is_waiting || is_stopped) return;
    is_waiting = true;
    cancel = clock.after(pause(failures), () => {
      is_waiting = false;
      if (writing === null) void flush();
    });
  }

  /** Writes one batch; false where it has to be tried again. */
  function flush(): Promise<boolean> {
    cancel();
    is_waiting = false;
    writing = writeOne({ backlog, write, log }, failures).then((is_settled) => {
      failures = is_settled ? 0 : failures + 1;
      writing = null;
      goOn();
      return is_settled;
    });
    return writing;
  }

  function goOn(): void {
    if (writing !== null || is_stopped) return;
    if (backlog.size() >= limits.request_batch && failures === 0) void flush();
    else if (backlog.size() > 0) wait();
  }

  return {
    add(record) {
      backlog.add(record);
      if (is_stopped) backlog.giveUp();
      else goOn();
    },
    standing: backlog.standing,
    async stop() {
      is_stopped = true;
      await writing;
      let goes_on = true;
      while (goes_on && backlog.size() > 0) goes_on = await flush();
      cancel();
      backlog.giveUp();
      const left = backlog.standing().lost - lost;
      if (left > 0) log.error({ lost: left }, 'records of requests were lost');
    },
  };
}

type Writing = { backlog: Backlog } & Pick<JournalDeps, 'write' | 'log'>;

async function writeOne({ backlog, write, log }: Writing, failures: number): Promise<boolean> {
  const records = backlog.take();
  try {
    await write(records, backlog.standing().lost);
  } catch (error) {
    const problem = describeError(error);
    const is_refused = isRefusal(error);
    backlog.settle(is_refused ? 'lost' : 'kept');
    const { waiting, lost } = backlog.standing();
    if (is_refused) log.error({ problem, lost, waiting }, 'records of requests were refused');
    else log.warn({ problem, lost, waiting }, 'requests could not be recorded yet');
    return is_refused;
  }
  backlog.settle('written');
  if (failures > 0) log.info(backlog.standing(), 'requests are recorded again');
  return true;
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
