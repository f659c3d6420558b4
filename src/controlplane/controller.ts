/**
 * The controller: decides what waits. Its passes are woken by signals and by a timer, take no input
 * and are idempotent; the next pass is the retry.
 *
 * Invariants: a decision is made on a snapshot and carried out by a transaction that checks it
 * again, so a stale snapshot costs a pass, never a promise; a pass yields to the event loop between
 * slices of 2 ms; a transaction that fails keeps no other one from being tried; a pass that nobody
 * woke, where nothing changed since the last one, only looks whether that is so.
 */
import type { Presence } from '../backends/agent/presence.ts';
import type { Use } from '../core/fair-share.ts';
import type { Group, WaitReason } from '../core/placement-index.ts';
import type { Details } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { createSignal } from '../lib/signal.ts';
import { createSlices, type Slices } from '../lib/slices.ts';
import { nextAttempt, queueFingerprint } from '../store/queue.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { type Asks, createAsks, type Decisions, decideAll, type Waits } from './admission.ts';
import type { Catalogs } from './catalogs.ts';
import type { MachineViews } from './machine-views.ts';
import { createBudget } from './pass-budget.ts';
import { nobody_stands, type QueueView } from './queue-view.ts';
import { createReplicaUnits, type ReplicaUnits } from './replica-units.ts';
import { type IdleOf, readReturning } from './returning.ts';
import { createWaitlist, type Waitlist } from './waiting.ts';

export type Controller = {
  /** Something changed that may let a workload be placed. */
  wake(): void;
  /** Runs one pass now (tests, and the loop itself). */
  pass(): Promise<PassFacts>;
  stop(): Promise<void>;
};

export type PassFacts = {
  waiting: number;
  placed: number;
  queued: number;
  busy_ms: number;
  longest_slice_ms: number;
  /** There is more to do at once. */
  more: boolean;
};

const period_ms = 5000;
const slice_ms = 2;
/**
 * The store commits what it is asked for meanwhile in one piece, and who launches waits for all of
 * it: a pass asks for a few milliseconds of its time at once.
 */
const places_at_once = 32;
const moves_at_once = 1;
/** Waiting workloads moved by one transaction, and by one pass. */
const members_of_one = 50;
const queued_limit = 5000;
/** A pass at least so often, in periods, while something waits and nothing seems to change. */
const full_every = 24;
/** A look at the store so often, in periods: another control plane may have written. */
const look_every = { waiting: 12, idle: 60 };

export type ControllerDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  presence: Presence;
  machines: MachineViews;
  catalogs: Pick<Catalogs, 'look'>;
  queue: QueueView;
  /** What each user has used, for fair share; counted by age. */
  uses: () => Promise<readonly Use[]>;
  /** Called after a placement, so that the machine hears of it at once. */
  placed: () => void;
  /** For how long a run was seen to be unused, in ms; left out: it may always be in use. */
  idleOf?: IdleOf;
  /** Another number after each write of this control plane: a look at it spares one at the store. */
  written: () => number;
};

/** What the loop remembers from one pass to the next. */
type Memory = {
  asks: Asks;
  waitlist: Waitlist;
  units: ReplicaUnits;
  machine_ids: string[];
  /** What the store looked like to the last pass that had nothing to do. */
  last: string;
  woken: boolean;
  /** What was so at that look, as far as this control plane knows by itself. */
  seen: string;
  /** How many waited at the last pass. */
  waiting: number;
  /** When the next one that backs off is due, as of that number of writes. */
  next: { at: number | null; written: number };
  /** As of when the store was looked at last: what fell due later was seen by nobody. */
  looked_at: number;
  /** When the next one that waits may fall back. */
  fallback_at: number | null;
  /** What a quota refused in the last pass: by workload and step, and why. */
  refused: Map<string, Details>;
};
type Context = ControllerDeps & { memory: Memory };

export function createController(deps: ControllerDeps): Controller {
  const signal = createSignal();
  const stopping = new AbortController();
  const memory: Memory = {
    ...{ asks: createAsks(), waitlist: createWaitlist(deps.store), machine_ids: [] },
    ...{ last: '', woken: true, seen: '', waiting: 0, next: { at: null, written: -1 } },
    ...{ looked_at: 0, fallback_at: null, refused: new Map(), units: createReplicaUnits(deps) },
  };
  const context: Context = { ...deps, memory };
  const running = loop(context, (ms) => signal.wait(deps.clock, ms, stopping.signal), stopping);
  return {
    wake() {
      memory.woken = true;
      signal.notify();
    },
    pass: () => pass(context),
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

async function loop(
  context: Context,
  wait: (ms: number) => Promise<void>,
  { signal: stopping }: AbortController,
): Promise<void> {
  const { clock, log } = context;
  const budget = createBudget(clock);
  let quiet_periods = 0;
  while (!stopping.aborted) {
    try {
      const { memory } = context;
      const is_idle = memory.waiting === 0;
      const look_after = is_idle ? look_every.idle : look_every.waiting;
      if (quiet_periods % look_after === look_after - 1) memory.seen = '';
      // Where nothing waits, a look at the store is all that a full pass would come to.
      const is_full = !is_idle && quiet_periods >= full_every;
      if (!is_full && (await nothingChanged(context))) {
        quiet_periods += 1;
      } else {
        quiet_periods = 0;
        const facts = await pass(context);
        if (facts.more) context.memory.woken = true;
        budget.spend(facts.busy_ms);
      }
    } catch (error) {
      // What is due stays so: it waits for a period, so that what fails is not tried without end.
      Object.assign(context.memory, { last: '', fallback_at: null });
      if (!stopping.aborted) log.error({ error: describeError(error) }, 'a pass failed');
    }
    const rest_ms = budget.rest_ms();
    if (rest_ms > 0) await clock.sleep(rest_ms, stopping);
    if (!context.memory.woken) await wait(await untilNext(context));
  }
}

/** True where nobody woke the controller and the store is as the last pass saw it. */
async function nothingChanged(context: Context): Promise<boolean> {
  const { memory, clock } = context;
  if (memory.woken || memory.last === '') return false;
  if (isOver(memory.fallback_at, clock)) return false;
  const is_due = isOver(memory.next.at, clock);
  const here = glance(context);
  const is_set_back = clock.now() < memory.looked_at;
  if (here === memory.seen && !is_due && !is_set_back) return true;
  if ((await fingerprint(context)) !== memory.last) return false;
  memory.seen = here;
  return true;
}

/** What can be told without the store: who is heard of, and that nothing was written here. */
function glance({ presence, memory, written }: Context): string {
  const online = memory.machine_ids.map((id) => (presence.isOnline(id) ? '1' : '0')).join('');
  return `${online} ${memory.units.silence()} ${written()}`;
}

async function fingerprint(context: Context): Promise<string> {
  const { store, clock, presence, memory } = context;
  const online = memory.machine_ids.map((id) => (presence.isOnline(id) ? '1' : '0')).join('');
  const now = clock.now();
  const seen = await store.read(queueFingerprint, { now });
  // Whatever is due after it is asked for anew.
  Object.assign(memory, { looked_at: now, next: { at: null, written: -1 } });
  return `${online} ${memory.units.silence()} ${seen}`;
}

function isOver(at: number | null, clock: Clock): boolean {
  return at !== null && at <= clock.now();
}

async function untilNext({ store, clock, memory, written }: Context): Promise<number> {
  const as_of = written();
  if (memory.next.written !== as_of) {
    // Not as of now: a timer may come a moment early, and what fell due since is still to be seen.
    const now = Math.min(memory.looked_at, clock.now());
    const at = await store.read(nextAttempt, { now }).catch(() => null);
    memory.next = { at, written: as_of };
  }
  const moments = [memory.next.at, memory.fallback_at].filter((at) => at !== null);
  const at = Math.min(...moments, clock.now() + period_ms);
  return Math.max(1, at - clock.now());
}

async function pass(context: Context): Promise<PassFacts> {
  const { catalogs, store, clock, machines, uses, memory, queue, idleOf } = context;
  memory.woken = false;
  const slices = createSlices(clock, slice_ms);
  const before = await fingerprint(context);
  if (slices.isOver()) await slices.rest();
  const ones = await memory.units.read(clock.now());
  const waiting = [...(await memory.waitlist.read(clock.now(), slices)), ...ones];
  memory.waiting = waiting.length;
  const returning = await readReturning(store, idleOf ?? neverIdle, clock.now());
  memory.fallback_at = returning.look_at;
  if (waiting.length === 0 && returning.may.length === 0) {
    queue.replace(nobody_stands);
    memory.last = before;
    return factsOf(slices, { waiting: 0, placed: 0, queued: 0, more: false });
  }
  const views = await machines.all(slices);
  memory.machine_ids = views.map((view) => view.id);
  const refused = new Set(memory.refused.keys());
  const catalog = await catalogs.look();
  const seen = { waiting, machines: views, uses: await uses(), now: clock.now(), catalog };
  const snapshot = { ...seen, refused, returning: returning.may };
  const decisions = await decideAll(snapshot, memory.asks, slices);
  memory.fallback_at = earlier(decisions.fallback_at, returning.look_at);
  const done = await carryOut(context, decisions, slices);
  // What this pass itself changed is news to the next one, which then finds none.
  memory.last = done.placed + done.queued === 0 ? before : '';
  return factsOf(slices, { waiting: waiting.length, ...done });
}

function factsOf(slices: Slices, done: Omit<PassFacts, 'busy_ms' | 'longest_slice_ms'>): PassFacts {
  const { busy_ms, longest_ms } = slices.facts();
  return { ...done, busy_ms, longest_slice_ms: longest_ms };
}

/** Begins the transactions that the decisions need, and tells what waits for what. */
async function carryOut(
  context: Context,
  decisions: Decisions,
  slices: Slices,
): Promise<{ placed: number; queued: number; more: boolean }> {
  const { store, clock, placed: tell } = context;
  const cause = () => ({
    ...{ now: clock.now(), mono: clock.monotonic() },
    ...{ actor: 'controller', request_id: null },
  });
  const over = new Map<string, Details>();
  const places = decisions.placed.map(({ row, placement, fallback_step }) => async () => {
    const what = { ...cause(), workload_id: row.id, placement };
    if (row.one !== undefined) {
      const { replica, unit } = row.one;
      const one = await store.transact('placeReplica', { ...what, replica, unit });
      return one.outcome === 'placed' ? 1 : 0;
    }
    const { revision } = row;
    const done = await store.transact('placeWorkload', { ...what, revision, fallback_step });
    if (done.outcome === 'over_quota') over.set(`${row.id} ${fallback_step}`, done.details ?? {});
    return done.outcome === 'placed' ? 1 : 0;
  });
  const placed = await fewAtOnce(places, places_at_once, slices);
  if (sumOf(placed) > 0) tell();
  const returns = decisions.returns.map(({ id, revision }) => async () => {
    const args = { ...cause(), workload_id: id, revision };
    return (await store.transact('returnToAsked', args)).outcome === 'returning' ? 1 : 0;
  });
  const returned = await fewAtOnce(returns, moves_at_once, slices);
  if (sumOf(returned) > 0) tell();
  const told = await tellWaits(context, decisions, slices);
  // What a quota is in the way of is passed over once, so that its next fallback gets its turn.
  context.memory.refused = over;
  const moves = told.moves.map(({ members, ones, code, details }) => async () => {
    const why = { ...cause(), code, details };
    const replicas =
      ones.length === 0
        ? 0
        : (await store.transact('queueReplicas', { ...why, members: ones })).queued;
    if (members.length === 0) return replicas;
    return replicas + (await store.transact('queueWorkloads', { ...why, members })).queued;
  });
  const queued = await fewAtOnce(moves, moves_at_once, slices);
  const failed = [...placed, ...returned, ...queued].find((one) => one.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  const sums = { placed: sumOf(placed), queued: sumOf(queued) };
  return { ...sums, more: decisions.more || told.more || over.size > 0 };
}

/**
 * All of them, so many at a time: what others ask of the store meanwhile goes between them. One
 * that fails keeps no other from being tried.
 */
async function fewAtOnce(
  works: readonly (() => Promise<number>)[],
  at_once: number,
  slices: Slices,
): Promise<PromiseSettledResult<number>[]> {
  const results: PromiseSettledResult<number>[] = [];
  for (let from = 0; from < works.length; from += at_once) {
    const some = works.slice(from, from + at_once).map((work) => work());
    results.push(...(await slices.outside(Promise.allSettled(some))));
  }
  return results;
}

function sumOf(results: PromiseSettledResult<number>[]): number {
  return results.reduce((sum, one) => sum + (one.status === 'fulfilled' ? one.value : 0), 0);
}

function earlier(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

/** Where nobody tells of use, everything may be in use. */
const neverIdle: IdleOf = () => 0;

type Move = WaitReason & {
  members: { workload_id: string; revision: number }[];
  /** Replicas that wait beside others of their workload. */
  ones: { workload_id: string; replica: number; revision: number }[];
};

/** Shows the queue as it stands, and collects those whose reason to wait is another one now. */
async function tellWaits(
  context: Context,
  { waits, reason, line, machines }: Decisions,
  slices: Slices,
): Promise<{ moves: Move[]; more: boolean }> {
  const reasons = new Map<Group, WaitReason>();
  const rows: Waits['row'][] = [];
  const told: (WaitReason | null)[] = [];
  const open = new Map<Group, Move>();
  const moves: Move[] = [];
  let moved = 0;
  const { refused } = context.memory;
  for (const { row, group, asked } of waits) {
    const over = refused.size === 0 ? undefined : refused.get(`${row.id} 0`);
    let why = over === undefined ? reasons.get(group) : overQuota(over);
    if (why === undefined) {
      why = await withHolders(context, group, reason(group));
      reasons.set(group, why);
    }
    // What nobody has heard of goes on where it is until there is another place for it.
    const is_silent = row.one?.unit.why === 'silent';
    rows.push(row);
    told.push(is_silent ? null : why);
    if (asked && !is_silent && isNews(row, why) && moved < queued_limit) {
      moved += 1;
      let move = over === undefined ? open.get(group) : undefined;
      if (move === undefined || move.members.length + move.ones.length >= members_of_one) {
        move = { ...why, members: [], ones: [] };
        if (over === undefined) open.set(group, move);
        moves.push(move);
      }
      const { id: workload_id, revision, one } = row;
      if (one === undefined) move.members.push({ workload_id, revision });
      else move.ones.push({ workload_id, replica: one.replica, revision });
    }
    if (slices.tick()) await slices.rest();
  }
  context.queue.replace({ rows, reasons: told }, line, machines);
  return { moves, more: moved >= queued_limit };
}

function overQuota(details: Details): WaitReason {
  return { code: 'quota_exceeded', details };
}

function isNews(row: Waits['row'], why: WaitReason): boolean {
  return row.state === 'pending' || row.code !== why.code;
}

const told_holders: ReadonlySet<string> = new Set(['machine_busy', 'home_busy', 'gpus_busy']);

/** Who holds the one machine that a tenant knows of: by name where it is the tenant's own. */
async function withHolders(
  { machines }: Context,
  { only, tenant_id }: Group,
  why: WaitReason,
): Promise<WaitReason> {
  if (only === null || !told_holders.has(why.code)) return why;
  const names = await machines.holders(tenant_id, only.id, why.code === 'gpus_busy');
  const holders = names.slice(0, 3).join(', ') || 'others';
  return { ...why, details: { ...why.details, holders } };
}
