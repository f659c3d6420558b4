/**
 * Reclaim: how an owner takes a machine back from those who run something there (ADR-0060). What
 * was asked, what the machine's own guard says, and how far it has come: a value in the store that
 * moves only through here.
 *
 * Invariants: pure; lengths follow the steady clock and moments that a person named the wall clock,
 * and what has begun is not undone by either; who stays never hears of it: the owner's own
 * workloads are concerned only where the owner said `all`; neutral is null, and a machine that
 * nobody wants back has nothing in the store.
 */
import { type GuardLevel, type GuardWhy, guard_parks } from './guard.ts';

/** Whose workloads are to go: those of other tenants, or everybody's. */
export type ReclaimScope = 'guests' | 'all';

/**
 * idle: nothing is asked for now; grace: those concerned were told, and nothing new of theirs
 * starts; held: they are stopped, and wait.
 */
export type ReclaimPhase = 'idle' | 'grace' | 'held';

export type ReclaimStart =
  | { when: 'now' }
  /** A moment of the wall clock. */
  | { when: 'at'; at: number }
  /** An instant of the steady clock, and what the wall clock was to say then. */
  | { when: 'in'; due: number; at: number }
  /** Whenever the machine's guard sees that its owner needs it. */
  | { when: 'active' };

export type ReclaimAsk = {
  /** A user's name. */
  by: string;
  asked_at: number;
  scope: ReclaimScope;
  grace_ms: number;
  start: ReclaimStart;
  /** A moment of the wall clock at which it is over by itself; null: until it is released. */
  until: number | null;
};

/** What of the guard's word matters here; null where it has no need. Not `parks`: it only waits. */
export type ReclaimGuard = { parks: boolean; why: GuardWhy; grace_ms: number };

export type Reclaim = {
  ask: ReclaimAsk | null;
  guard: ReclaimGuard | null;
  phase: ReclaimPhase;
  /** Whom it concerns in this phase, and why it began. */
  scope: ReclaimScope;
  why: ReclaimWhy;
  /** Moment of the wall clock at which the phase began. */
  since: number;
  /** Of grace: the instant of the steady clock at which it ends, and what the wall clock says then. */
  due: number;
  due_at: number;
};
export type ReclaimWhy = 'owner_asked' | GuardWhy;

/** By both clocks of the control plane; `steady` is the ledger's. */
export type ReclaimInstant = { now: number; steady: number };

/**
 * planned, announce, called_off: those concerned are told; take: they are stopped; release: what
 * was stopped for it goes on.
 */
export type ReclaimStep = 'planned' | 'announce' | 'called_off' | 'take' | 'release';
export type Advanced = { after: Reclaim | null; steps: ReclaimStep[] };

/** Who gets nothing new on a machine now. */
export type ReclaimView = {
  scope: ReclaimScope;
  why: ReclaimWhy;
  since: number;
  until: number | null;
};

const nothing: Reclaim = {
  ...{ ask: null, guard: null, phase: 'idle', scope: 'guests', why: 'owner_asked' },
  ...{ since: 0, due: 0, due_at: 0 },
};

/** Is a tenant's workload one that has to go, in a scope? */
export function isConcerned(scope: ReclaimScope, owner_tenant_id: string, tenant_id: string) {
  return scope === 'all' || tenant_id !== owner_tenant_id;
}

/** Whether a machine takes nothing new of a tenant, nor goes on with what was stopped there. */
export function isTakenBack(
  reclaim: Pick<Reclaim, 'phase' | 'scope'> | null,
  owner_tenant_id: string,
  tenant_id: string,
): boolean {
  if (reclaim === null || reclaim.phase === 'idle') return false;
  return isConcerned(reclaim.scope, owner_tenant_id, tenant_id);
}

/** True where it is in effect: what begins later cannot be asked for before it was released. */
export function isInEffect(reclaim: Reclaim | null): boolean {
  return reclaim !== null && reclaim.phase !== 'idle';
}

/** The owner asks. A later word replaces an earlier one, and its grace counts from now. */
export function askFor(
  before: Reclaim | null,
  ask: ReclaimAsk,
  at: ReclaimInstant,
  /** What its guard says, where nothing of that is written down. */
  guard: ReclaimGuard | null = before?.guard ?? null,
): Advanced {
  const state = { ...(before ?? nothing), ask, guard };
  const is_wider = before?.scope === 'guests' && ask.scope === 'all';
  if (ask.start.when === 'now' && (state.phase === 'grace' || (is_wider && isInEffect(before)))) {
    return settle(begin(state, { ...ask, why: 'owner_asked' }, at), announced(ask), at);
  }
  // Who was spared before the owner asked for less goes on.
  const is_narrower = before?.scope === 'all' && ask.scope === 'guests' && isInEffect(before);
  const scope = isInEffect(before) ? ask.scope : state.scope;
  const is_later = ask.start.when === 'at' || ask.start.when === 'in';
  const steps: ReclaimStep[] = is_later ? ['planned'] : is_narrower ? ['release'] : [];
  return settle({ ...state, scope }, steps, at);
}

/** The owner lets go. What the guard needs by itself, it keeps. */
export function letGo(before: Reclaim | null, at: ReclaimInstant): Advanced {
  if (before === null) return { after: null, steps: [] };
  const was_planned = before.phase === 'idle' && before.ask?.start.when !== 'active';
  return settle({ ...before, ask: null }, was_planned ? ['called_off'] : [], at);
}

/** What the machine's guard says now. */
export function hearGuard(
  before: Reclaim | null,
  guard: ReclaimGuard | null,
  at: ReclaimInstant,
): Advanced {
  return settle({ ...(before ?? nothing), guard }, [], at);
}

/** Time has passed. */
export function advance(before: Reclaim | null, at: ReclaimInstant): Advanced {
  return before === null ? { after: null, steps: [] } : settle(before, [], at);
}

/** How long nothing comes of it but by somebody's word; null where that is for good. */
export function nextIn_ms(reclaim: Reclaim, at: ReclaimInstant): number | null {
  const { ask, phase, due } = reclaim;
  const waits: number[] = [];
  if (phase === 'grace') waits.push(due - at.steady);
  if (ask !== null && ask.until !== null) waits.push(ask.until - at.now);
  if (phase === 'idle' && ask?.start.when === 'at') waits.push(ask.start.at - at.now);
  if (phase === 'idle' && ask?.start.when === 'in') waits.push(ask.start.due - at.steady);
  return waits.length === 0 ? null : Math.max(0, Math.min(...waits));
}

/** Whom a placement has to leave out; null where nobody. */
export function viewOf(reclaim: Reclaim | null): ReclaimView | null {
  if (reclaim === null || reclaim.phase === 'idle') return null;
  const { scope, why, since, ask } = reclaim;
  return { scope, why, since, until: ask?.until ?? null };
}

/** What of the guard's reasons says that the owner is at it, rather than that the machine is unwell. */
const in_use: ReadonlySet<GuardWhy> = new Set([
  'owner_active',
  'owner_paused',
  'foreign_gpu',
  'cpu_busy',
]);

/** What a guard's word comes to here: the first of its reasons, those of use before others. */
export function guardOf(said: {
  level: GuardLevel;
  why: readonly GuardWhy[];
  grace_ms: number;
}): ReclaimGuard | null {
  const why = said.why.find((one) => in_use.has(one)) ?? said.why[0];
  if (said.level === 0 || why === undefined) return null;
  const parks = said.level >= guard_parks;
  return { parks, why, grace_ms: said.level > guard_parks ? 0 : said.grace_ms };
}

type Need = { scope: ReclaimScope; grace_ms: number; why: ReclaimWhy };

/** Goes on until nothing follows any more. */
function settle(state: Reclaim, before: readonly ReclaimStep[], at: ReclaimInstant): Advanced {
  const steps = [...before];
  let current = withoutOver(state, at);
  const need = needOf(current, at);
  if (need === null && current.phase !== 'idle') {
    steps.push(current.phase === 'grace' ? 'called_off' : 'release');
    current = { ...current, phase: 'idle', since: at.now };
  }
  if (need !== null && current.phase === 'idle') {
    current = begin(current, need, at);
    steps.push(...announced(need));
  }
  if (current.phase === 'grace' && at.steady >= current.due) {
    current = { ...current, phase: 'held', since: at.now };
    steps.push('take');
  }
  return { after: isNeutral(current) ? null : current, steps: [...new Set(steps)] };
}

function begin(state: Reclaim, need: Need, at: ReclaimInstant): Reclaim {
  const { ask } = state;
  const is_planned = ask !== null && ask.start.when !== 'active' && hasStarted(ask.start, at);
  return {
    ...state,
    // Once begun it is not undone by a clock that steps back.
    ask: is_planned ? { ...ask, start: { when: 'now' } } : ask,
    ...{ phase: 'grace', scope: need.scope, why: need.why },
    ...{ since: at.now, due: at.steady + need.grace_ms, due_at: at.now + need.grace_ms },
  };
}

/** Who is stopped at once is told by the stop itself. */
function announced({ grace_ms }: { grace_ms: number }): ReclaimStep[] {
  return grace_ms > 0 ? ['announce'] : [];
}

function withoutOver(state: Reclaim, { now }: ReclaimInstant): Reclaim {
  const until = state.ask?.until ?? null;
  return until !== null && now >= until ? { ...state, ask: null } : state;
}

/** Why the machine is wanted back now; null where it is not. */
function needOf({ ask, guard, phase, why }: Reclaim, at: ReclaimInstant): Need | null {
  if (ask !== null && hasStarted(ask.start, at)) return { ...ask, why: 'owner_asked' };
  if (guard === null) return null;
  const { parks } = guard;
  if (ask?.start.when === 'active' && (parks || in_use.has(guard.why))) {
    return { ...ask, why: guard.why };
  }
  // What it was parked for stays so until the guard needs nothing any more.
  const goes_on = phase !== 'idle' && why !== 'owner_asked';
  if (!parks && !goes_on) return null;
  return { scope: 'guests', grace_ms: guard.grace_ms, why: guard.why };
}

function hasStarted(start: ReclaimStart, { now, steady }: ReclaimInstant): boolean {
  if (start.when === 'at') return now >= start.at;
  return start.when === 'in' ? steady >= start.due : start.when === 'now';
}

function isNeutral({ ask, guard, phase }: Reclaim): boolean {
  return ask === null && phase === 'idle' && (guard === null || !guard.parks);
}
