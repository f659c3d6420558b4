/**
 * How far a machine is given back to its owner, as its own agent decides (ADR-0061): the words that
 * agent, control plane and command line share.
 *
 * Invariants: levels are ordered, each includes those below it; level 0 has no why; why a machine
 * is guarded is a code of the table of reasons, so that nobody counts it as a user's failure.
 */
import type { ReasonCode } from './reasons.ts';
import { sentenceOf } from './reasons.ts';

export const guardWhys = [
  'owner_paused',
  'foreign_gpu',
  'owner_active',
  'hot',
  'on_battery',
  'memory_low',
  'disk_floor',
  'outside_hours',
  'cpu_busy',
] as const satisfies readonly ReasonCode[];
export type GuardWhy = (typeof guardWhys)[number];

/**
 * 0 free; 1 nothing new of guests; 2 what they run gets little CPU; 3 what of it needs no GPU
 * stands still; 4 they are told, given grace, and parked; 5 parked at once.
 */
export type GuardLevel = 0 | 1 | 2 | 3 | 4 | 5;

/** What a machine's agent said last. */
export type GuardView = {
  level: GuardLevel;
  why: GuardWhy[];
  /** Why nothing new starts, the owner's own workloads included; empty: they do. */
  own_why: GuardWhy[];
};

/** From this level on guests are parked. */
export const guard_parks: GuardLevel = 4;

/** Why a machine takes nothing new of somebody; null where it does. */
export function guardedAgainst(guard: GuardView, is_owner: boolean): GuardWhy | null {
  const why = is_owner ? guard.own_why : guard.level === 0 ? [] : [...guard.why, ...guard.own_why];
  return why[0] ?? null;
}

/** "m3 is in use by its owner": a phrase for a sentence; `it` where that names the machine. */
export function guardPhrase(why: GuardWhy, machine = 'it'): string {
  return sentenceOf(why, { machine }).replace(/\.$/, '');
}
