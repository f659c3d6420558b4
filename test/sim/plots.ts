/**
 * Short tales in a story, each of a few items that together bring about what chance alone hardly
 * would: one for each rule that matters only then.
 *
 * Invariants: each is drawn apart, so that who adds one changes no other part of a story.
 */
import { createChance } from './chance.ts';
import type { Falls } from './fallbacks.ts';
import type { Item } from './schedule.ts';

const minute_ms = 60_000;

export function plotsOf(seed: number, busy_hours: number, span: number): Item[] {
  return [
    ...uprootsOf(seed, busy_hours, span),
    ...overfillsOf(seed, span),
    ...detoursOf(seed, span),
  ];
}

/** A home matters where its machine is in the way while others have room; drawn apart, too. */
function uprootsOf(seed: number, busy_hours: number, span: number): Item[] {
  const chance = createChance(seed, 'uproots');
  return Array.from({ length: Math.round(busy_hours * chance.between(0, 2)) }, () => {
    const at = chance.between(0, span);
    const tenant = chance.between(0, 2);
    const launch = { does: 'launch' as const, tenant, size: 0, name: null, repeats: 0 };
    const how = chance.pick(['drain', 'cut'] as const);
    const for_ms = chance.between(4 * minute_ms, 20 * minute_ms);
    return [
      { at, ...launch, rooted: true },
      { at: at + chance.between(minute_ms, 5 * minute_ms), does: 'uproot' as const, how, for_ms },
    ];
  }).flat();
}

/** The tenant with the quota launches more than it may. */
function overfillsOf(seed: number, span: number): Item[] {
  const chance = createChance(seed, 'overfills');
  if (!chance.is(0.25)) return [];
  const at = chance.between(span / 4, span);
  const launch = { does: 'launch' as const, tenant: 2, size: 0, name: null, repeats: 0 };
  const delays = [0, 1, 2, 3, 4].map((nth) => minute_ms + nth * 1000);
  return [
    { at: at - 10 * minute_ms, ...launch },
    { at, does: 'overfill' },
    ...delays.map((delay) => ({ at: at + delay, ...launch })),
  ];
}

/** Its machine takes nothing for some minutes, so that it falls back, and would soon go back. */
function detoursOf(seed: number, span: number): Item[] {
  const chance = createChance(seed, 'detours');
  return [0, 1].flatMap((tenant) => {
    // Its own, and another that takes anybody's, as those of odd numbers do.
    const machine = chance.pick([0, 1]) * 3 + tenant;
    const other = machine === 1 ? 3 : 1;
    const at = chance.between(0, span - 20 * minute_ms);
    const for_ms = chance.between(2 * minute_ms, 6 * minute_ms);
    const falls: Falls = { after_ms: 0, back: true, machines: [machine, other] };
    const launch = { does: 'launch' as const, tenant, size: 0, name: null, repeats: 0 };
    return [
      { at, does: 'drain' as const, machine, stop: false, for_ms },
      { at: at + minute_ms / 2, ...launch, falls },
    ];
  });
}
