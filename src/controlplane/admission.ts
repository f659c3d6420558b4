/**
 * One pass over what waits: a decision for each, on a snapshot, in slices.
 *
 * Invariants: pure but for the rests between slices; the order is fair share's; of each class the
 * head, once it has waited ten minutes and where some machine could take it, is decided before all
 * others and keeps room free (design: head-of-class reservation); a group that found no place is
 * not asked again.
 */
import { type Ask, classKey, parseAsk, weightOf } from '../core/ask.ts';
import { createFairLines, type Use, type Waiting } from '../core/fair-share.ts';
import {
  createPlacementIndex,
  type Group,
  type PlacementIndex,
  type WaitReason,
} from '../core/placement-index.ts';
import type { MachineView, Placement } from '../core/workload.ts';
import type { Slices } from '../lib/slices.ts';
import type { WaitingRow } from '../store/queue.ts';

export type Placed = { row: WaitingRow; placement: Placement };
/** `asked` is false for what this pass had no time for. */
export type Waits = { row: WaitingRow; group: Group; asked: boolean };
export type Decisions = {
  placed: Placed[];
  /** In the order of the queue. */
  waits: Waits[];
  reason(group: Group): WaitReason;
  /** True where the pass stopped placing at its limit: another one has more to do. */
  more: boolean;
};

/** How long the head of a class waits before room is kept free for it. */
export const reserve_after_ms = 10 * 60_000;
/** Placements of one pass; the next pass goes on. */
const placements_limit = 1000;
const asks_kept = 20_000;

export type Snapshot = {
  waiting: WaitingRow[];
  machines: MachineView[];
  uses: readonly Use[];
  now: number;
};

export type Asks = { of(text: string): Ask };

/** Asks by their text, each parsed once. */
export function createAsks(): Asks {
  const known = new Map<string, Ask>();
  return {
    of(text) {
      let ask = known.get(text);
      if (ask === undefined) {
        if (known.size >= asks_kept) known.clear();
        ask = parseAsk(text);
        known.set(text, ask);
      }
      return ask;
    },
  };
}

type Turn = Waiting & { row: WaitingRow; ask: Ask };

export async function decideAll(
  snapshot: Snapshot,
  asks: Asks,
  slices: Slices,
): Promise<Decisions> {
  const index = createPlacementIndex(snapshot.machines);
  const turns = await inOrder(snapshot, asks, slices);
  const heads = await decideHeads(turns, index, snapshot.now, slices);
  const placed: Placed[] = [];
  const waits: Waits[] = [];
  const exhausted = new Set<Group>();
  for (const turn of turns) {
    const { row } = turn;
    const group = index.group(turn.ask, row.tenant_id);
    let placement = heads.get(turn) ?? null;
    const is_full = placed.length >= placements_limit;
    const asked = heads.has(turn) || exhausted.has(group) || !is_full;
    if (!heads.has(turn) && !exhausted.has(group) && !is_full) {
      placement = index.choose(group);
      if (placement === null) exhausted.add(group);
      else index.take(placement.machine_id, turn.ask);
    }
    if (placement === null) waits.push({ row, group, asked });
    else placed.push({ row, placement });
    if (slices.isOver()) await slices.rest();
  }
  return { placed, waits, reason: index.reason, more: placed.length >= placements_limit };
}

async function inOrder({ waiting, uses }: Snapshot, asks: Asks, slices: Slices): Promise<Turn[]> {
  const lines = createFairLines<Turn>(uses);
  for (const row of waiting) {
    const ask = asks.of(row.ask);
    const { id, tenant_id, creator_id, created_at } = row;
    lines.add({ id, tenant_id, creator_id, created_at, weight: weightOf(ask), row, ask });
    if (slices.isOver()) await slices.rest();
  }
  const turns: Turn[] = [];
  for (const turn of lines.order()) {
    turns.push(turn);
    if (slices.isOver()) await slices.rest();
  }
  return turns;
}

/** Places, or keeps room for, the head of each class that has waited long. */
async function decideHeads(
  turns: readonly Turn[],
  index: PlacementIndex,
  now: number,
  slices: Slices,
): Promise<Map<Turn, Placement | null>> {
  const heads = new Map<Turn, Placement | null>();
  const seen = new Set<string>();
  for (const turn of turns) {
    const key = classKey(turn.ask);
    if (!seen.has(key)) {
      const group = index.group(turn.ask, turn.tenant_id);
      // Who could run nowhere is no head: it would hold the others of its class up for nothing.
      if (group.suited.size > 0) {
        seen.add(key);
        if (now - turn.row.state_since >= reserve_after_ms) {
          const placement = index.choose(group);
          if (placement !== null) index.take(placement.machine_id, turn.ask);
          else index.reserve(group);
          heads.set(turn, placement);
        }
      }
    }
    if (slices.isOver()) await slices.rest();
  }
  return heads;
}
