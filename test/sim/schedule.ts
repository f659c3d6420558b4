/**
 * What happens in a story, derived from its seed up front: what users ask for, and what goes wrong.
 *
 * Invariants: it is data; any part of it may be left out, and the rest happens as before.
 */
import type { Sharing } from '../../src/core/trust.ts';
import { type Chance, createChance } from './chance.ts';
import { type Falls, withFallbacks } from './fallbacks.ts';
import type { Moment } from './life.ts';
import type { Way, Weather } from './link.ts';
import { plotsOf } from './plots.ts';

/** `nth` and `machine` are taken modulo what there is. */
export type Deed =
  | {
      does: 'launch';
      tenant: number;
      size: number;
      name: string | null;
      repeats: number;
      replicas?: number;
      falls?: Falls;
      /** It has a disk, and no GPU. */
      rooted?: boolean;
    }
  | { does: 'scale'; nth: number; to: number }
  | { does: 'stop' | 'start' | 'delete'; nth: number; repeats: number }
  /** An earlier launch, asked for again with its key; with `other`, for something else. */
  | { does: 'again'; nth: number; other: boolean };

export type Fault =
  | { does: 'crash'; who: Who; calls: number; moment: Moment; down_ms: number }
  | { does: 'restart'; who: Who; down_ms: number }
  | { does: 'cut'; machine: number; ways: Way[]; for_ms: number }
  | { does: 'weather'; machine: number | 'all'; weather: Weather; for_ms: number }
  | { does: 'step'; who: Who; by_ms: number }
  /** The control plane's clock is set back while something waits for its next attempt. */
  | { does: 'step-at-rest'; by_ms: number }
  | { does: 'suspend'; machine: number; for_ms: number }
  | { does: 'reboot'; machine: number; down_ms: number; forgets: boolean }
  | { does: 'writes'; code: WriteFault; happens: boolean; count: number }
  | { does: 'journal'; machine: number; count: number }
  | { does: 'driver'; machine: number; what: DriverCall; for_ms: number; restarts: boolean }
  | { does: 'clone'; machine: number; for_ms: number }
  /** The agent starts without its driver, and for so long cannot tell what runs. */
  | { does: 'blind'; machine: number; for_ms: number }
  | { does: 'old-journal'; machine: number; down_ms: number }
  /** `of_placing`: it waits for the moment between a placement and the first word of it. */
  | { does: 'backup'; of_placing?: boolean }
  | { does: 'restore'; down_ms: number; zombie_ms: number }
  | { does: 'share'; machine: number; sharing: Sharing; tenant: number }
  | { does: 'offer'; machine: number; memory_gib: number }
  | { does: 'invite'; machine: number; tenant: number; is_invited: boolean }
  /** Nothing new comes for so long; with `stop` what is there goes. */
  | { does: 'drain'; machine: number; stop: boolean; for_ms: number }
  /** Its owner lets it offer no more than this; null is no limit. */
  | { does: 'limit'; machine: number; memory_gib: number | null }
  /** Its owner takes it back, and lets go of it after `for_ms`, which may be before it begins. */
  | { does: 'reclaim'; machine: number; ask: ReclaimAsked; for_ms: number }
  /** Its guard says that its owner needs it. */
  | { does: 'guard'; machine: number; level: 1 | 4 | 5; grace_ms: number; for_ms: number }
  /** What has a disk stops, and starts while its home takes nothing or is not heard of. */
  | { does: 'uproot'; how: 'drain' | 'cut'; for_ms: number }
  /** One of a tenant with a quota stops, and starts once others have taken its place. */
  | { does: 'overfill' }
  /** Powered off, said to be so after `word_ms`, and on again after `down_ms`. */
  | { does: 'fence'; machine: number; word_ms: number; down_ms: number };

export type ReclaimAsked = {
  scope: 'guests' | 'all';
  when: 'now' | 'in' | 'at' | 'active';
  after_ms: number;
  grace_ms: number;
  /** So long after it was asked it is over by itself; null: when it is released. */
  until_ms: number | null;
};

export type Who = 'control plane' | number;
export type DriverCall = 'observe' | 'start' | 'stop';
export type WriteFault = 'store_full' | 'store_failing' | 'outcome_unknown';
export type Item = { at: number } & (Deed | Fault);

export type ScheduleOptions = { seed: number; hours: number; machines: number };

const hour_ms = 3_600_000;
const minute_ms = 60_000;
const day_ms = 24 * hour_ms;

export function scheduleOf(options: ScheduleOptions): Item[] {
  const { seed } = options;
  const chance = createChance(seed, 'schedule');
  const span = options.hours * hour_ms;
  const busy_hours = options.hours * tempoOf(seed);
  const items: Item[] = [];
  // Some stories are about one fault only.
  const deeds = Math.round(busy_hours * chance.between(4, 14));
  const faults = Math.round(busy_hours * chance.between(1, 7));
  const favourite = chance.is(0.3) ? chance.pick(faultMakers) : null;
  for (let count = 0; count < deeds; count += 1) {
    // Half of them come in the first fifth, so that there is something to disturb.
    const at = chance.between(0, chance.is(0.3) ? span / 5 : span);
    items.push({ at, ...deedOf(chance) });
    if (chance.is(0.2)) items.push({ at: at + chance.between(0, 5000), ...deedOf(chance) });
  }
  for (let count = 0; count < faults; count += 1) {
    const make = favourite !== null && chance.is(0.6) ? favourite : chance.pick(faultMakers);
    const at = chance.between(0, span);
    items.push({ at, ...make(chance) });
  }
  const backups = backupsOf(seed, busy_hours, span, items);
  items.push(...backups, ...restartsOf(seed, items), ...restoresOf(seed, items));
  items.push(...stepsOf(seed, span), ...ownersOf(seed, busy_hours, span));
  items.push(...reclaimsOf(seed, busy_hours, span));
  const launches = withFallbacks(seed, withReplicas(seed, items));
  const own = [...scalesOf(seed, busy_hours, span), ...plotsOf(seed, busy_hours, span)];
  return [...launches, ...own].sort((a, b) => a.at - b.at);
}

/**
 * What part of a busy story's items comes in this one. Most bugs need few items, and many calm
 * stories differ more than a few busy ones; some need a deployment that is full.
 */
function tempoOf(seed: number): number {
  return createChance(seed, 'tempo').pick([1, 0.4, 0.2, 0.2, 0.2]);
}

/** Who stops something often starts it again at once, while it has not ended yet. */
function restartsOf(seed: number, items: readonly Item[]): Item[] {
  const chance = createChance(seed, 'restarts');
  return items.flatMap((item) => {
    if (item.does !== 'stop' || !chance.is(0.4)) return [];
    return [{ ...item, at: item.at + chance.between(10, 10_000), does: 'start' as const }];
  });
}

/** The copy is of the moment between a placement and the first word of it, and comes back later. */
function restoresOf(seed: number, items: readonly Item[]): Item[] {
  const chance = createChance(seed, 'restores');
  const launches = items.filter(({ does }) => does === 'launch');
  if (launches.length === 0 || !chance.is(0.25)) return [];
  const { at } = chance.pick(launches);
  const later = at + chance.between(minute_ms, 40 * minute_ms);
  const restore = { at: later, does: 'restore' as const, down_ms: 1000, zombie_ms: 0 };
  return [{ at, does: 'backup', of_placing: true }, restore];
}

/** Back-off is short: a clock that is set at any time would hardly ever meet one. */
function stepsOf(seed: number, span: number): Item[] {
  const chance = createChance(seed, 'steps');
  if (!chance.is(0.3)) return [];
  const by_ms = chance.pick([-400 * day_ms, -hour_ms]);
  return [{ at: chance.between(0, span / 2), does: 'step-at-rest', by_ms }];
}

/** What the owners of machines do, drawn apart: who adds to it changes no other part of a story. */
function ownersOf(seed: number, busy_hours: number, span: number): Item[] {
  const chance = createChance(seed, 'owners');
  const count = Math.round(busy_hours * chance.between(0, 3));
  return Array.from({ length: count }, () => {
    const at = chance.between(0, span);
    return { at, ...chance.pick(ownerMakers)(chance) };
  });
}

/** Some endpoints are asked for with replicas; drawn apart, like what owners do. */
function withReplicas(seed: number, items: readonly Item[]): Item[] {
  const chance = createChance(seed, 'replicas');
  return items.map((item) => {
    if (item.does !== 'launch') return item;
    return { ...item, replicas: chance.is(0.3) ? chance.between(2, 3) : 1 };
  });
}

function scalesOf(seed: number, busy_hours: number, span: number): Item[] {
  const chance = createChance(seed, 'scales');
  return Array.from({ length: Math.round(busy_hours * chance.between(0, 3)) }, () => {
    const deed = { does: 'scale' as const, nth: chance.between(0, 999), to: chance.between(1, 3) };
    return { at: chance.between(0, span), ...deed };
  });
}

/** Owners take machines back, and their guards do; drawn apart from all else. */
function reclaimsOf(seed: number, busy_hours: number, span: number): Item[] {
  const chance = createChance(seed, 'reclaims');
  const count = Math.round(busy_hours * chance.between(0, 4));
  return Array.from({ length: count }, () => {
    const at = chance.between(0, span);
    return { at, ...(chance.is(0.7) ? reclaimOf(chance) : guardOf(chance)) };
  });
}

const reclaimOf = (chance: Chance): Fault => ({
  does: 'reclaim',
  machine: machine(chance),
  ask: {
    scope: chance.is(0.75) ? 'guests' : 'all',
    when: chance.pick(['now', 'now', 'now', 'in', 'at', 'active'] as const),
    after_ms: chance.between(1000, 20 * minute_ms),
    grace_ms: chance.is(0.3) ? 0 : chance.between(1000, 10 * minute_ms),
    until_ms: chance.is(0.2) ? chance.between(30 * minute_ms, 60 * minute_ms) : null,
  },
  // Some are never released.
  for_ms: chance.is(0.1) ? 1000 * hour_ms : chance.between(1000, 60 * minute_ms),
});

const guardOf = (chance: Chance): Fault => ({
  does: 'guard',
  machine: machine(chance),
  level: chance.pick([1, 4, 4, 5] as const),
  grace_ms: chance.between(0, 2 * minute_ms),
  for_ms: chance.between(1000, 40 * minute_ms),
});

/** Taken each busy hour or so, or just when something is being placed: then there is most to lose. */
function backupsOf(seed: number, busy_hours: number, span: number, items: readonly Item[]): Item[] {
  const chance = createChance(seed, 'backups');
  const launches = items.filter(({ does }) => does === 'launch' || does === 'start');
  return Array.from({ length: Math.ceil(busy_hours) }, () => {
    const after = launches.length > 0 && chance.is(0.6) ? chance.pick(launches).at : null;
    const at = after === null ? chance.between(0, span) : after + chance.between(10, 4000);
    return { at, does: 'backup' as const };
  });
}

export function isFault(item: Item): boolean {
  return !['launch', 'stop', 'start', 'delete', 'again', 'scale'].includes(item.does);
}

function deedOf(chance: Chance): Deed {
  const drawn = chance.next();
  const nth = chance.between(0, 999);
  const repeats = chance.is(0.2) ? chance.between(1, 3) : 0;
  if (drawn < 0.45) {
    const name = chance.is(0.3) ? `n${chance.between(1, 9)}` : null;
    return {
      does: 'launch',
      tenant: chance.between(0, 2),
      size: chance.between(0, 3),
      name,
      repeats,
    };
  }
  if (drawn < 0.6) return { does: 'stop', nth, repeats };
  if (drawn < 0.75) return { does: 'start', nth, repeats };
  if (drawn < 0.92) return { does: 'delete', nth, repeats };
  return { does: 'again', nth, other: chance.is(0.3) };
}

const who = (chance: Chance): Who => (chance.is(0.35) ? 'control plane' : chance.between(0, 999));
const machine = (chance: Chance) => chance.between(0, 999);
const down = (chance: Chance) =>
  chance.is(0.2) ? chance.between(minute_ms, 20 * minute_ms) : chance.between(100, 15_000);

const crash = (chance: Chance): Fault => ({
  does: 'crash',
  who: who(chance),
  calls: chance.is(0.5) ? chance.between(1, 20) : chance.between(1, 300),
  moment: chance.pick(['before', 'after'] as const),
  down_ms: down(chance),
});

const weather = (chance: Chance): Fault => ({
  does: 'weather',
  machine: chance.is(0.4) ? 'all' : machine(chance),
  weather: {
    drop: chance.is(0.6) ? chance.next() * 0.4 : 0,
    double: chance.is(0.6) ? chance.next() * 0.5 : 0,
    late: chance.is(0.6) ? chance.next() * 0.4 : 0,
  },
  for_ms: chance.between(minute_ms, 40 * minute_ms),
});

const faultMakers: ((chance: Chance) => Fault)[] = [
  crash,
  crash,
  crash,
  weather,
  weather,
  (chance) => ({ does: 'restart', who: who(chance), down_ms: down(chance) }),
  (chance) => ({
    does: 'cut',
    machine: machine(chance),
    ways: chance.pick([['up'], ['down'], ['up', 'down']] as Way[][]),
    for_ms: chance.between(5000, 30 * minute_ms),
  }),
  (chance) => ({
    does: 'step',
    who: who(chance),
    by_ms: chance.pick([-400 * day_ms, -hour_ms, -5000, 5000, hour_ms, 400 * day_ms]),
  }),
  (chance) => ({
    does: 'suspend',
    machine: machine(chance),
    for_ms: chance.is(0.2)
      ? chance.between(hour_ms, 30 * day_ms)
      : chance.between(10_000, 30 * minute_ms),
  }),
  (chance) => ({
    does: 'reboot',
    machine: machine(chance),
    down_ms: down(chance),
    forgets: chance.is(0.5),
  }),
  (chance) => ({
    does: 'writes',
    code: chance.pick(['store_full', 'store_failing', 'outcome_unknown'] as const),
    happens: chance.is(0.5),
    count: chance.between(1, 12),
  }),
  (chance) => ({ does: 'journal', machine: machine(chance), count: chance.between(1, 6) }),
  (chance) => ({
    does: 'driver',
    machine: machine(chance),
    what: chance.pick(['observe', 'start', 'stop'] as const),
    for_ms: chance.between(10_000, 10 * minute_ms),
    restarts: chance.is(0.5),
  }),
  (chance) => ({ does: 'clone', machine: machine(chance), for_ms: chance.between(500, 30_000) }),
  (chance) => ({
    does: 'blind',
    machine: machine(chance),
    for_ms: chance.between(10_000, 10 * minute_ms),
  }),
  () => ({ does: 'backup' }),
  () => ({ does: 'backup' }),
  (chance) => ({
    does: 'restore',
    down_ms: down(chance),
    zombie_ms: chance.is(0.5) ? chance.between(10_000, 20 * minute_ms) : 0,
  }),
  (chance) => ({ does: 'old-journal', machine: machine(chance), down_ms: down(chance) }),
  (chance) => ({
    does: 'share',
    machine: machine(chance),
    sharing: chance.pick(['private', 'invite-only', 'community'] as const),
    tenant: chance.between(0, 2),
  }),
  (chance) => ({
    does: 'offer',
    machine: machine(chance),
    memory_gib: chance.pick([4, 8, 16]),
  }),
  (chance) => ({
    does: 'fence',
    machine: machine(chance),
    word_ms: chance.is(0.5) ? chance.between(0, 5000) : chance.between(0, 5 * minute_ms),
    down_ms: chance.between(1000, 10 * minute_ms),
  }),
];

const ownerMakers: ((chance: Chance) => Fault)[] = [
  (chance) => ({
    does: 'invite',
    machine: machine(chance),
    tenant: chance.between(0, 2),
    is_invited: chance.is(0.6),
  }),
  (chance) => ({
    does: 'drain',
    machine: machine(chance),
    stop: chance.is(0.5),
    for_ms: chance.between(1000, 30 * minute_ms),
  }),
  (chance) => ({
    does: 'limit',
    machine: machine(chance),
    memory_gib: chance.pick([2, 4, 8, null]),
  }),
];
