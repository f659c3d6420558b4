/**
 * Records that are not written yet: in their order, those that are on their way to the store apart.
 *
 * Invariants: never more than `limits.request_journal_records`; what is dropped is counted, the
 * oldest of those that wait first; every record is taken until it is settled one way or another.
 */
import { limits } from '../../contract/limits.ts';
import type { RequestRecord } from '../request-record.ts';

export type BacklogStanding = {
  /** Records that are not written yet, and how long the oldest of them waits. */
  waiting: number;
  oldest_ms: number;
  /** Lost so far, ever. */
  lost: number;
};

export type Backlog = {
  add(record: RequestRecord): void;
  /** The next batch, to be settled before another one is taken. */
  take(): RequestRecord[];
  /** It is written; or it goes to the front again; or it is lost. */
  settle(as: 'written' | 'kept' | 'lost'): void;
  /** All that waits is lost. */
  giveUp(): void;
  /** How many wait, beside those that are taken. */
  size(): number;
  standing(): BacklogStanding;
};

export function createBacklog(lost_before: number, monotonic: () => number): Backlog {
  type Waiting = { record: RequestRecord; since: number };
  let lost = lost_before;
  let waiting: Waiting[] = [];
  let taken: Waiting[] = [];

  function bound(): void {
    const over = taken.length + waiting.length - limits.request_journal_records;
    if (over > 0) lost += waiting.splice(0, over).length;
  }

  return {
    add(record) {
      waiting.push({ record, since: monotonic() });
      bound();
    },
    take() {
      taken = waiting.slice(0, limits.request_batch);
      waiting = waiting.slice(taken.length);
      return taken.map(({ record }) => record);
    },
    settle(as) {
      if (as === 'lost') lost += taken.length;
      if (as === 'kept') waiting = [...taken, ...waiting];
      taken = [];
      bound();
    },
    giveUp() {
      lost += waiting.length;
      waiting = [];
    },
    size: () => waiting.length,
    standing() {
      const oldest = taken[0] ?? waiting[0];
      const oldest_ms = oldest === undefined ? 0 : monotonic() - oldest.since;
      return { waiting: taken.length + waiting.length, oldest_ms, lost };
    },
  };
}
