/**
 * One pass over what waits: a decision for each, on a snapshot, in slices.
 *
 * Invariants: pure but for the rests between slices; the order is fair share's; of each class the
 * head, once it has waited ten minutes and where some machine could take it, is decided before all
 * others and keeps room free (design: head-of-class reservation); a group that found no place is
 * not asked again; the fallbacks of one that waited for them are tried in their order, right after
 * what it asked for and never before, and what is kept free for others is not theirs.
 */
import { type Ask, askText, classKey, parseAsk, weightOf } from '../core/ask.ts';
import { builtin_catalog, type Catalog } from '../core/catalog.ts';
import { createFairLines, type Use, type Waiting } from '../core/fair-share.ts';
import { isDue, type WaitingFallback } from '../core/fallback.ts';
import { sizeName } from '../core/placement.ts';
import {
  createPlacementIndex,
  type Group,
  type PlacementIndex,
  type WaitReason,
} from '../core/placement-index.ts';
import type { Amounts, MachineView, Placement } from '../core/workload.ts';
import type { Slices } from '../lib/slices.ts';
import type { ReturningRow } from '../store/fallback-return.ts';
import type { WaitingFields } from '../store/queue.ts';
import type { Line } from './queue-view.ts';
import type { OneReplica } from './replica-units.ts';

/** `fallback_step`: which of its fallbacks this is, from 1; 0 for what it asked. */
export type Placed = { row: Waiter; placement: Placement; fallback_step: number };
/** `asked` is false for what this pass had no time for. */
export type Waits = { row: Waiter; group: Group; asked: boolean } & Waiting;
export type Decisions = {
  placed: Placed[];
  /** In the order of the queue. */
  waits: Waits[];
  /** The same as fair share saw them, and by what use. */
  line: Line;
  /** With what is kept free on them. */
  machines: readonly MachineView[];
  reason(group: Group): WaitReason;
  /** True where the pass stopped placing at its limit: another one has more to do. */
  more: boolean;
  /** What runs by a fallback, and for whose ask there is room that nobody waits for. */
  returns: ReturningRow[];
  /** When the next one may fall back, by the wall clock; null where none is to. */
  fallback_at: number | null;
};

/** A workload that waits for its first run, or one replica that waits while others go on. */
export type Waiter = WaitingFields & { one?: OneReplica };

/** How long the head of a class waits before room is kept free for it. */
export const reserve_after_ms = 10 * 60_000;
/** Placements of one pass; the next pass goes on. */
const placements_limit = 1000;
const asks_kept = 20_000;

export type Snapshot = {
  waiting: Waiter[];
  machines: MachineView[];
  uses: readonly Use[];
  now: number;
  /** As it comes with Einsora where it is left out. */
  catalog?: Catalog;
  /** What a quota refused just now, by workload and step: `<id> <step>`. */
  refused?: ReadonlySet<string>;
  /** What may go back from its fallback to what it asked. */
  returning?: readonly ReturningRow[];
};

export type Asks = {
  of(text: string): Ask;
  fallback(text: string): WaitingFallback;
};

/** Asks by their text, each parsed once. */
export function createAsks(): Asks {
  return {
    of: onceEach(parseAsk),
    fallback: onceEach((text) => JSON.parse(text) as WaitingFallback),
  };
}

function onceEach<K, T>(work: (key: K) => T): (key: K) => T {
  const known = new Map<K, T>();
  return (key) => {
    let found = known.get(key);
    if (found === undefined) {
      if (known.size >= asks_kept) known.clear();
      found = work(key);
      known.set(key, found);
    }
    return found;
  };
}

type Asker = Pick<Waiter, 'tenant_id' | 'creator_id' | 'one'> & Avoiding;
type Avoiding = Partial<Pick<WaitingFields, 'avoid_machine_id' | 'avoid_until'>>;
type Turn = Waits & { ask: Ask };

export async function decideAll(
  snapshot: Snapshot,
  asks: Asks,
  slices: Slices,
): Promise<Decisions> {
  const { catalog = builtin_catalog } = snapshot;
  const index = createPlacementIndex(snapshot.machines, catalog);
  const turns = await inOrder(snapshot, index, asks, slices);
  const heads = await decideHeads(turns, index, snapshot, slices);
  const placed: Placed[] = [];
  const waits: Waits[] = [];
  const exhausted = new Set<Group>();
  const tryGroup = (group: Group, asker: Asker, anew = false) => {
    const { creator_id, one } = asker;
    if (exhausted.has(group) && !anew) return null;
    const placement = one
      ? index.chooseApart(group, one.apart)
      : index.choose(group, avoidedBy(asker, snapshot.now));
    if (placement === null) exhausted.add(group);
    else index.take(placement, group.ask, creator_id);
    if (placement !== null) one?.apart.add(placement.machine_id);
    return placement;
  };
  const tryAsk = (ask: Ask, asker: Asker, anew = false) =>
    tryGroup(index.group(ask, asker.tenant_id, asker.creator_id), asker, anew);
  for (const turn of turns) {
    const { row, group } = turn;
    const is_head = heads.has(turn);
    let placement = heads.get(turn) ?? null;
    let fallback_step = 0;
    const is_full = placed.length >= placements_limit;
    turn.asked = is_head || exhausted.has(group) || !is_full;
    if (!is_head && !is_full && !isRefused(snapshot, row)) placement = tryGroup(group, row);
    const may_fall = placement === null && !is_full && row.fallback !== '';
    const steps = may_fall ? stepsDue(snapshot, asks, turn) : [];
    // What is kept free for it keeps it from nothing; whoever is next of its class keeps it then.
    const is_kept = steps.length > 0 && is_head;
    const head = is_kept ? index.unreserve(group) : undefined;
    for (const { ask, number } of steps) {
      placement = tryAsk(ask, row, is_kept);
      if (placement === null) continue;
      fallback_step = number;
      break;
    }
    if (is_kept && placement === null) index.reserve(group, head);
    if (placement === null) waits.push(turn);
    else placed.push({ row, placement, fallback_step });
    if (slices.tick()) await slices.rest();
  }
  // Whoever waits comes first: this is what they left.
  const fits = (row: ReturningRow) => {
    const ask = asks.of(row.ask);
    // What it has now is free by then.
    index.take(row, { ...ask, ...amountsOf(row, -1) });
    const placement = tryAsk(ask, row, true);
    if (placement === null) index.take(row, { ...ask, ...amountsOf(row, 1) });
    return placement !== null;
  };
  const fallback_at = nextFallback(snapshot, asks);
  const returns = (snapshot.returning ?? []).filter(fits);
  const more = placed.length >= placements_limit;
  const line = { waiting: waits, uses: snapshot.uses };
  const seen = { line, machines: snapshot.machines };
  return { placed, waits, ...seen, reason: index.reason, more, returns, fallback_at };
}

function amountsOf(row: ReturningRow, sign: 1 | -1): Amounts {
  return {
    cpu_millis: sign * row.cpu_millis,
    memory_bytes: sign * row.memory_bytes,
    disk_bytes: sign * row.disk_bytes,
  };
}

/** Whether its quota refused what it asks just now. */
function isRefused({ refused }: Snapshot, { id }: { id: string }): boolean {
  return refused !== undefined && refused.size > 0 && refused.has(`${id} 0`);
}

/** The fallbacks that may be tried now; none before its wait is over. */
function stepsDue(
  { now, refused }: Snapshot,
  asks: Asks,
  { row, ask }: Turn,
): { ask: Ask; number: number }[] {
  const { after_ms, steps } = asks.fallback(row.fallback);
  if (row.fallback_due === 0 && !isDue(row.state_since, after_ms, now)) return [];
  // What has a home stays there, whatever else stands in.
  const { home_machine_id: home } = ask;
  return steps
    .filter(({ moves, number }) => !(home && moves) && !refused?.has(`${row.id} ${number}`))
    .map((step) => ({ ask: atHome(asks, step.ask, home), number: step.number }));
}

function atHome(asks: Asks, text: string, home_machine_id: Ask['home_machine_id']): Ask {
  const ask = asks.of(text);
  return home_machine_id ? asks.of(askText({ ...ask, home_machine_id })) : ask;
}

/** When the next wait for a fallback is over. */
function nextFallback({ waiting, now }: Snapshot, asks: Asks): number | null {
  let next: number | null = null;
  for (const { fallback, state_since } of waiting) {
    if (fallback === '') continue;
    const at = state_since + asks.fallback(fallback).after_ms;
    if (at > now && (next === null || at < next)) next = at;
  }
  return next;
}

async function inOrder(
  { waiting, uses, catalog = builtin_catalog }: Snapshot,
  index: PlacementIndex,
  asks: Asks,
  slices: Slices,
): Promise<Turn[]> {
  const lines = createFairLines<Turn>(uses);
  const weigh = onceEach((ask: Ask) => weightOf(ask, catalog));
  for (const row of waiting) {
    const ask = asks.of(row.ask);
    const { id, tenant_id, creator_id, created_at } = row;
    const group = index.group(ask, tenant_id, creator_id);
    const weight = weigh(ask);
    lines.add({ id, tenant_id, creator_id, created_at, weight, row, ask, group, asked: false });
    if (slices.tick()) await slices.rest();
  }
  const turns: Turn[] = [];
  for (const turn of lines.order()) {
    turns.push(turn);
    if (slices.tick()) await slices.rest();
  }
  return turns;
}

/** Places, or keeps room for, the head of each class that has waited long. */
async function decideHeads(
  turns: readonly Turn[],
  index: PlacementIndex,
  snapshot: Snapshot,
  slices: Slices,
): Promise<Map<Turn, Placement | null>> {
  const { now } = snapshot;
  const heads = new Map<Turn, Placement | null>();
  const seen = new Set<string>();
  for (const turn of turns) {
    const key = classKey(turn.ask);
    if (!seen.has(key)) {
      const { group } = turn;
      // Who could run nowhere is no head: it would hold the others of its class up for nothing.
      if (group.suited > 0 && !isRefused(snapshot, turn.row)) {
        seen.add(key);
        if (now - turn.row.state_since >= reserve_after_ms) {
          const placement = index.choose(group, avoidedBy(turn.row, now));
          if (placement !== null) index.take(placement, turn.ask, turn.creator_id);
          else index.reserve(group, headOf(turn, now));
          heads.set(turn, placement);
          // It may have looked at every machine.
          if (slices.isOver()) await slices.rest();
        }
      }
    }
    if (slices.tick()) await slices.rest();
  }
  return heads;
}

/** The machine on which its start failed lately: its last choice. */
function avoidedBy({ avoid_machine_id = null, avoid_until = 0 }: Avoiding, now: number) {
  return avoid_until > now ? avoid_machine_id : null;
}

/** How the one for which room is kept is called to others: by its class alone. */
function headOf({ ask, row }: Turn, now: number): { gpu_class: string; waited_ms: number } {
  return { gpu_class: ask.gpu_class ?? sizeName(ask), waited_ms: now - row.state_since };
}
