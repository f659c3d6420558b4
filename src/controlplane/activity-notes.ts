/**
 * What is recorded of requests without an effect: reads, and writes that were refused. They are
 * collected here and written by the sealer's tick (ADR-0031).
 *
 * Invariants: nothing here waits for the store, and a request adds at most one entry; one look at
 * one thing is one row however long it lasts (a stream, a poll), told again after an hour; the same
 * refusal of the same proof is one row a minute, and one more with their count; all is bounded, and
 * what does not fit is counted in the log.
 */
import type { ReasonCode } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Action } from '../store/activity.ts';
import type { Note } from '../store/activity-notes.ts';

export type ActivityNotes = {
  /** Somebody was shown something. */
  read(action: Action, target: string | null): void;
  /** Somebody known was refused. */
  refused(action: Action, target: string | null, code: ReasonCode): void;
  /** Takes what is due, at most `limit`; give it back with `putBack` where it was not written. */
  take(limit: number): Note[];
  putBack(notes: Note[]): void;
  /** Makes all that is still counted due, for the last time. */
  end(): void;
};

const look_pause_ms = 5 * 60_000;
const look_longest_ms = 3600_000;
const refusal_window_ms = 60_000;
const most_looks = 20_000;
const most_refusals = 2_000;
const most_due = 10_000;
const sweep_every_ms = 60_000;

export function createActivityNotes(deps: {
  clock: Pick<Clock, 'monotonic'>;
  log: Log;
}): ActivityNotes {
  const { clock, log } = deps;
  let due: Note[] = [];
  let lost = 0;
  let swept_at = 0;
  const add = (note: Note | null) => {
    if (note !== null && due.length < most_due) due.push(note);
    else lost += 1;
  };
  const looks = createLooks();
  const refusals = createRefusals(add);

  /** Ends the windows that are over. */
  function turn(): void {
    const now = clock.monotonic();
    refusals.turn(now);
    if (now - swept_at < sweep_every_ms) return;
    swept_at = now;
    looks.sweep(now);
    if (lost > 0) log.warn({ lost }, 'reads or refusals were too many for the activity log');
    lost = 0;
  }

  return {
    read(action, target) {
      const key = JSON.stringify([action.proof_id, action.route, target]);
      if (looks.begins(key, clock.monotonic())) {
        add({ action, target, outcome: 'done', details: {} });
      }
    },
    refused(action, target, code) {
      const key = JSON.stringify([action.proof_id, action.route, code]);
      refusals.count(key, { action, target, outcome: code }, clock.monotonic());
    },
    take(limit) {
      turn();
      return due.splice(0, limit);
    },
    putBack(notes) {
      due = [...notes, ...due].slice(0, most_due);
    },
    end() {
      refusals.turn(Infinity);
    },
  };
}

/** Who looks at what: a look goes on while no pause is longer than five minutes. */
function createLooks() {
  const looks = new Map<string, { began_at: number; last_at: number }>();
  return {
    /** Is this the begin of a look? */
    begins(key: string, now: number): boolean {
      const known = looks.get(key);
      if (known && now - known.last_at < look_pause_ms && now - known.began_at < look_longest_ms) {
        known.last_at = now;
        return false;
      }
      looks.delete(key);
      const [oldest] = looks.keys();
      if (looks.size >= most_looks && oldest !== undefined) looks.delete(oldest);
      looks.set(key, { began_at: now, last_at: now });
      return true;
    },
    sweep(now: number): void {
      for (const [key, { last_at }] of looks) if (now - last_at >= look_pause_ms) looks.delete(key);
    },
  };
}

type Refusal = { began_at: number; more: number; last: Omit<Note, 'details'> };

/** Refusals of the same kind within a minute: the first at once, the others as one with a count. */
function createRefusals(add: (note: Note | null) => void) {
  const refusals = new Map<string, Refusal>();
  /** In the order they began, so it stops at the first that goes on. */
  function turn(now: number): void {
    for (const [key, { began_at, more, last }] of refusals) {
      if (now - began_at < refusal_window_ms) return;
      refusals.delete(key);
      if (more > 0) add({ ...last, details: { more } });
    }
  }
  return {
    turn,
    count(key: string, note: Omit<Note, 'details'>, now: number): void {
      turn(now);
      const known = refusals.get(key);
      if (known !== undefined) {
        known.more += 1;
        known.last = note;
      } else if (refusals.size >= most_refusals) {
        add(null);
      } else {
        refusals.set(key, { began_at: now, more: 0, last: note });
        add({ ...note, details: {} });
      }
    },
  };
}
