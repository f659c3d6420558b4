/**
 * Begins the journal of this process on the store, and says how the one before it ended.
 *
 * Invariants: one that was not closed (power, kill) is counted and told with the moment that it was
 * written last: what ended within `limits.request_journal_ms` of then, and what was under way, has
 * no record.
 */
import type { Clock } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import { createJournal, type Journal } from './journal.ts';
import { rowOfRecord } from './rows.ts';

/** `unclean`: how often a journal was not closed, ever. */
export type OpenJournal = Journal & { unclean: number };

export async function openJournal(deps: {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
}): Promise<OpenJournal> {
  const { store, clock, log } = deps;
  const opened = await store.transact('openRequestJournal', { now: clock.now() });
  const { unclean, unclosed_at } = opened;
  if (unclosed_at !== null) {
    const written = new Date(unclosed_at).toISOString();
    log.warn({ unclean, written }, 'the journal of requests was not closed: its last may be lost');
  }
  const journal = createJournal({
    ...{ clock, log, lost: opened.lost },
    async write(records, lost) {
      const rows = records.map(rowOfRecord);
      await store.transact('recordRequests', { rows, lost, now: clock.now() });
    },
  });
  return {
    ...journal,
    unclean,
    async stop() {
      await journal.stop();
      try {
        const { lost } = journal.standing();
        await store.transact('closeRequestJournal', { now: clock.now(), lost });
      } catch (error) {
        log.warn({ problem: describeError(error) }, 'the journal of requests was not closed');
      }
    },
  };
}
