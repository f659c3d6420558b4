/**
 * Machines that their owners take back: hears what their guards say, and lets time have its effect
 * (ADR-0060).
 *
 * Invariants: decided by core/reclaim.ts inside a transaction, so that a restart, a second control
 * plane or a look that comes late changes nothing but the moment; a guard that says the same again
 * costs no write; a look that fails is left to the next one; while this control plane writes
 * nothing, a look believes what an earlier one read.
 */
import type { GuardReport } from '../contract/guard.ts';
import { guardOf, nextIn_ms } from '../core/reclaim.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { createSignal } from '../lib/signal.ts';
import { readSteady } from '../store/ledger-clock.ts';
import { findMachine } from '../store/machines.ts';
import { listPreempted, parseReclaim } from '../store/preempt.ts';
import { listReclaims, type ReclaimedRow } from '../store/reclaim.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type Reclaims = {
  /** Something was asked: what is due next may be another moment. */
  wake(): void;
  /** What a machine's guard says with a report. */
  guarded(machine_id: string, said: GuardReport): Promise<void>;
  /** Looks now (tests, and the loop itself). */
  look(): Promise<void>;
  stop(): Promise<void>;
};

export type ReclaimDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  /** Admission is to look, and agents to hear of it. */
  changed(): void;
  /** Another number after each write of this control plane; without it each look reads. */
  written?: () => number;
};

/** What a look read, and when: as of that number of writes, at that monotonic instant. */
type Seen = { rows: ReclaimedRow[]; steady: number; as_of: number; at_mono: number };

const page_rows = 200;
/** While a machine is wanted back, and while none is: another control plane may have been asked. */
const busy_look_ms = 15_000;
const idle_look_ms = 30_000;
/** How long what was read is believed, while only another control plane could have written. */
const believed_ms = 60_000;
const recheck_ms = 5 * 60_000;
/** Between two looks, whatever is due: nobody minds that much, and nothing can spin. */
const least_rest_ms = 250;

export function startReclaims(deps: ReclaimDeps): Reclaims {
  const { store, clock, log } = deps;
  const signal = createSignal();
  const stopping = new AbortController();
  /** What of each guard's word was heard last, and when that was held against the store. */
  const heard = new Map<string, { text: string; checked_at: number }>();

  let seen: Seen | null = null;

  async function lookAgain(): Promise<number> {
    const before = seen;
    seen = null; // where it fails, the next one reads
    const looked = await look(deps, isBelieved(deps, before) ? before : null);
    seen = looked.seen;
    return looked.rest_ms;
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      let rest_ms = busy_look_ms;
      try {
        rest_ms = await lookAgain();
      } catch (error) {
        if (stopping.signal.aborted) return;
        log.warn(
          { error: describeError(error) },
          'machines that are taken back were not looked at',
        );
      }
      await signal.wait(clock, rest_ms, stopping.signal);
    }
  }

  async function guarded(machine_id: string, said: GuardReport): Promise<void> {
    const guard = guardOf(said);
    const text = JSON.stringify(guard);
    const before = heard.get(machine_id);
    const now = clock.monotonic();
    // Another control plane may have heard something else meanwhile.
    const is_fresh = before !== undefined && now - before.checked_at < recheck_ms;
    if (is_fresh && before.text === text) return;
    if (!is_fresh && (await storedGuard(store, machine_id)) === text) {
      heard.set(machine_id, { text, checked_at: now });
      return;
    }
    const args = { ...causeOf(clock), actor: 'guard', machine_id, guard };
    const { changed } = await store.transact('hearMachineGuard', args);
    heard.set(machine_id, { text, checked_at: now });
    if (changed === 0) return;
    log.info(
      { machine_id, level: said.level, why: said.why.join(' ') },
      'a guard changed what runs',
    );
    deps.changed();
    signal.notify();
  }

  const running = loop();
  return {
    wake: () => signal.notify(),
    guarded,
    look: async () => void (await lookAgain()),
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

function isBelieved({ clock, written }: ReclaimDeps, seen: Seen | null): seen is Seen {
  if (seen === null || written === undefined) return false;
  return seen.as_of === written() && clock.monotonic() - seen.at_mono < believed_ms;
}

/** Does what is due, by what was read before or now, and says for how long nothing more is. */
async function look(
  deps: ReclaimDeps,
  before: Seen | null,
): Promise<{ rest_ms: number; seen: Seen }> {
  const { store, clock } = deps;
  const seen = before ?? (await readReclaims(deps));
  const instant = { now: clock.now(), steady: seen.steady + clock.monotonic() - seen.at_mono };
  let rest_ms = idle_look_ms;
  let changed = 0;
  for (const { id, reclaim, concerned } of seen.rows) {
    const state = parseReclaim(reclaim);
    if (state === null) continue;
    const left_ms = nextIn_ms(state, instant);
    rest_ms = Math.min(rest_ms, busy_look_ms, Math.max(least_rest_ms, left_ms ?? busy_look_ms));
    // What turned up there although it is held is stopped as well.
    if (left_ms !== 0 && (state.phase !== 'held' || concerned === 0)) continue;
    const done = await store.transact('advanceReclaim', { ...causeOf(clock), machine_id: id });
    changed += done.changed;
  }
  // What is preempted is in the store as it was, too.
  const resumed = before === null ? await resume(deps) : 0;
  if (changed + resumed > 0) deps.changed();
  return { rest_ms: changed > 0 ? least_rest_ms : rest_ms, seen };
}

/** All machines that somebody wants back, and what the steady clock says. */
async function readReclaims({ store, clock, written }: ReclaimDeps): Promise<Seen> {
  const as_of = written?.() ?? 0;
  const [now, at_mono] = [clock.now(), clock.monotonic()];
  const rows: ReclaimedRow[] = [];
  for (let after = ''; ; ) {
    const page = await store.read(listReclaims, { after, limit: page_rows });
    rows.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < page_rows) break;
    after = last.id;
  }
  const steady = rows.length === 0 ? now : await store.read(readSteady, { now, mono: at_mono });
  return { rows, steady, as_of, at_mono };
}

/** What was stopped for a machine that is free by now goes on, also where its quota was in the way. */
async function resume({ store, clock }: ReclaimDeps): Promise<number> {
  let resumed = 0;
  for (let after = ''; ; ) {
    const rows = await store.read(listPreempted, { after, limit: page_rows });
    for (const { id: workload_id } of rows) {
      const args = { ...causeOf(clock), workload_id };
      const { outcome } = await store.transact('resumePreempted', args);
      if (outcome === 'resumed') resumed += 1;
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < page_rows) return resumed;
    after = last.id;
  }
}

async function storedGuard(store: EinsoraStore, machine_id: string): Promise<string> {
  const row = await store.read(findMachine, { machine_id });
  return JSON.stringify(parseReclaim(row?.reclaim ?? '')?.guard ?? null);
}

function causeOf(clock: Clock) {
  const cause = { actor: 'controller', request_id: null };
  return { now: clock.now(), mono: clock.monotonic(), ...cause };
}
