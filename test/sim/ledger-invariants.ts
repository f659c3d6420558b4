/**
 * What must hold of a workload's intervals in the ledger after each commit (I-19 to I-21), measured
 * against the true time of the story.
 *
 * Invariants: an interval is never longer than the time that passed since it was first seen open,
 * nor shorter where an event closed it, and outlives its process by no more than nobody can know,
 * unless nobody can know better: the wall clock stepped while no control plane ran to see it, or
 * the store is a restored one.
 */
import type { Truth } from './invariants.ts';
import type { Story } from './story.ts';
import type { Watch } from './watch.ts';

type Row = {
  id: string;
  replica: number;
  kind: 'metered' | 'held';
  sign: number;
  reason: string;
  started_at: number;
  started_steady: number;
  ended_at: number | null;
  ended_steady: number | null;
  ended_by: string | null;
};

export type LedgerCheck = {
  /** How many of its runs answer while it runs, and how many hold something. */
  check(watch: Watch, workload_id: string, now: { answering: number; holding: number }): void;
  /** From now on nothing is said about the length of what is open. */
  forgive(): void;
  /** What a restored store has open began in a time that it lost. */
  restored(watch: Watch): void;
};

/** Rounding, and what passes between an event and its commit. */
const slack_ms = 1000;
/** A lease without a word, of which the last one may have been long on its way. */
const unheard_ms = 60_000 + 120_000;

export function createLedgerCheck(story: Story, truth: Truth): LedgerCheck {
  /** When each open interval was first seen; null where its length is forgiven. */
  const opened = new Map<string, number | null>();

  function checkLength(row: Row): void {
    const since = opened.get(row.id);
    if (since === undefined || since === null || row.ended_steady === null) return;
    const length = row.ended_steady - row.started_steady;
    const passed = story.time.now() - since;
    if (length > passed + slack_ms) {
      story.violate('I-20', `${row.id} is ${length} ms long, and ${passed} ms passed`);
    }
    if (row.ended_by === 'event' && length < passed - slack_ms) {
      story.violate('I-20', `${row.id} is only ${length} ms long, and ${passed} ms passed`);
    }
    const ended_at = truth.endedAt(row.id.split('.').slice(0, 3).join('.'));
    if (row.kind !== 'metered' || ended_at === null) return;
    if (length > Math.max(0, ended_at - since) + unheard_ms + slack_ms) {
      story.violate('I-21', `${row.id} is ${length} ms long, and it ran ${ended_at - since} ms`);
    }
  }

  return {
    forgive() {
      for (const id of opened.keys()) opened.set(id, null);
    },
    restored(watch) {
      opened.clear();
      const open = watch.all<{ id: string }>('select id from ledger where ended_at is null');
      for (const { id } of open) opened.set(id, null);
    },
    check(watch, workload_id, { answering, holding }) {
      const rows = rowsOf(watch, workload_id);
      const open = (kind: Row['kind']) =>
        rows.filter((row) => row.kind === kind && row.ended_at === null).length;
      if (open('metered') !== answering) {
        const metered = open('metered');
        story.violate('I-19', `of ${workload_id} ${answering} answer, ${metered} are metered`);
      }
      if (open('held') !== holding) {
        story.violate('I-19', `${workload_id} holds ${holding}, ${open('held')} are measured`);
      }
      for (const row of rows) {
        if (row.ended_at === null && !opened.has(row.id)) opened.set(row.id, story.time.now());
        if (row.ended_at === null) continue;
        if (row.ended_at < row.started_at)
          story.violate('I-19', `${row.id} is shorter than nothing`);
        if (opened.has(row.id)) checkLength(row);
        opened.delete(row.id);
      }
      checkOrder(story, rows, isFollowed(watch, workload_id));
    },
  };
}

/**
 * Of what was measured of one replica and kind, nothing overlaps; but what a run that nobody heard
 * of holds, it holds beside the one that followed it.
 */
function checkOrder(story: Story, rows: readonly Row[], is_followed: boolean): void {
  const last = new Map<string, number>();
  for (const row of rows) {
    // What is known later of a run that another one follows by now is placed by its own clock.
    const is_beside = is_followed && (row.kind === 'held' || row.reason === 'ran_on');
    if (row.sign !== 1 || is_beside) continue;
    const key = `${row.kind} ${row.replica}`;
    if (row.started_at < (last.get(key) ?? 0)) {
      story.violate('I-19', `${row.id} overlaps the one before`);
    }
    last.set(key, row.ended_at ?? last.get(key) ?? 0);
  }
}

function isFollowed(watch: Watch, workload_id: string): boolean {
  return (
    watch.get(
      `select number from workload_events
       where workload_id = ?1 and code in ('replica_unheard', 'replicas_scaled') limit 1`,
      workload_id,
    ) !== undefined
  );
}

function rowsOf(watch: Watch, workload_id: string): Row[] {
  return watch.all<Row>(
    `select id, replica, kind, sign, reason, started_at, started_steady, ended_at, ended_steady,
       ended_by
     from ledger where workload_id = ?1 order by kind, started_at, entry`,
    workload_id,
  );
}
