/**
 * The guard of a machine's owner: looks every few seconds, decides, and treats the runs here
 * accordingly. It parks nothing as long as the control plane can be asked to.
 *
 * Invariants: nothing is done to a run of which the control plane has not said since this agent
 * began whose it is; a look or a driver that fails changes nothing and is tried again at the next
 * one; what stands still when an agent begins is found so, and goes on once nothing speaks against
 * it; one call to a driver for each run at a time.
 */
import type { GuardReport } from '../../contract/guard.ts';
import type { DesiredRun } from '../../contract/sync.ts';
import { type GuardWhy, guard_parks, guardedAgainst, guardPhrase } from '../../core/guard.ts';
import type { Details, ReasonCode } from '../../core/reasons.ts';
import { brokenRule } from '../../core/refusals.ts';
import { type RunKey, runName } from '../../core/run.ts';
import type { Driver } from '../../drivers/driver.ts';
import { type Clock, withDeadline } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { LocalRun } from '../local-run.ts';
import type { PolicySource } from '../policy-source.ts';
import { decideGuard, type GuardDecision } from './decide.ts';
import { changesOf, type GuardedRun, parkAlone, type Treatment } from './effects.ts';
import type { Sensors } from './sensors.ts';

export type GuardParts = { sensors: Sensors; policy: PolicySource };

export type GuardDeps = GuardParts & {
  drivers: ReadonlyMap<string, Driver>;
  locals(): readonly LocalRun[];
  /** Parks a run without having been asked to; its end has this reason. */
  park(run: RunKey, why: GuardWhy): void;
  clock: Clock;
  log: Log;
  /** Something is to be reported. */
  changed(): void;
};

export type Guard = {
  learn(desired: readonly DesiredRun[]): void;
  /** The control plane answered. */
  heard(): void;
  report(): GuardReport | undefined;
  /** Why a run that was not begun does not begin here; null where it may. */
  refusal(desired: DesiredRun): { code: ReasonCode; details: Details } | null;
  stop(): Promise<void>;
};

export const guard_every_ms = 5_000;
/** Where nothing runs that the guard could hold back, looking costs more than it helps. */
const idle_every_ms = 30_000;
const driver_patience_ms = 30_000;
const look_patience_ms = 15_000;
/** Unheard of for so long, the control plane is not waited for. */
const alone_after_ms = 60_000;

type Whose = { is_guest: boolean; has_gpu: boolean };

type Context = GuardDeps & {
  whose: Map<string, Whose>;
  /** What was done to each run; one that is not in it was not looked at yet. */
  treated: Map<string, { treatment: Treatment; pending: boolean }>;
  decision: GuardDecision | null;
  /** Since when guests are told to go. */
  parking_since: number | null;
  heard_at: number;
  /** The last look, and what was pressed then. */
  looked: { at: number; pressed: string } | null;
  stopping: AbortSignal;
};

export function startGuard(deps: GuardDeps): Guard {
  const stopping = new AbortController();
  const context: Context = {
    ...{
      ...deps,
      whose: new Map(),
      treated: new Map(),
      decision: null,
      parking_since: null,
      looked: null,
    },
    ...{ heard_at: deps.clock.monotonic(), stopping: stopping.signal },
  };
  const running = loop(context);
  return {
    learn(desired) {
      context.whose = new Map(desired.map((one) => [runName(one), whoseOf(one)]));
    },
    heard() {
      context.heard_at = deps.clock.monotonic();
    },
    report: () => reportOf(context),
    refusal: (desired) => refusalOf(context, desired),
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

/** Never rejects. */
async function loop(context: Context): Promise<void> {
  const { clock, log, stopping } = context;
  while (!stopping.aborted) {
    try {
      if (isDue(context)) {
        const looked = look(context);
        await withDeadline(clock, look_patience_ms, 'the look took too long', looked);
      }
      await treat(context);
    } catch (error) {
      log.warn({ error: describeError(error) }, 'the guard could not look');
    }
    await clock.sleep(guard_every_ms, stopping);
  }
}

function isDue({ clock, sensors, whose, decision, looked }: Context): boolean {
  if (looked === null || looked.pressed !== sensors.pressed()) return true;
  const is_watched = decision?.everyone === true || [...whose.values()].some((one) => one.is_guest);
  return is_watched || clock.monotonic() - looked.at >= idle_every_ms;
}

async function look(context: Context): Promise<void> {
  const { sensors, policy, clock, changed } = context;
  const pressed = sensors.pressed();
  const readings = await sensors.read();
  const now = clock.monotonic();
  context.looked = { at: now, pressed };
  const before = context.decision;
  const decision = decideGuard(readings, policy.current().policy, before, now);
  context.decision = decision;
  if (decision.level < guard_parks) context.parking_since = null;
  else context.parking_since ??= now;
  if (textOf(before) !== textOf(decision)) {
    context.log.info(
      { level: decision.level, why: decision.why.join(', ') },
      'the guard decided anew',
    );
    changed();
  }
}

function textOf(decision: GuardDecision | null): string {
  return JSON.stringify([decision?.level ?? 0, decision?.why ?? [], decision?.own_why ?? []]);
}

async function treat(context: Context): Promise<void> {
  const { decision, clock } = context;
  if (decision === null) return;
  await adopt(context);
  const runs = known(context);
  for (const { run, to, why } of changesOf(decision, runs)) change(context, run, to, why);
  const now = clock.monotonic();
  const is_alone = now - context.heard_at >= alone_after_ms;
  const facts = { parking_since: context.parking_since, is_alone, now };
  for (const { run, why } of parkAlone(decision, runs, facts)) context.park(run, why);
}

/** What is new here is asked for: a program before this one may have left it standing still. */
async function adopt({ locals, treated, drivers }: Context): Promise<void> {
  const names = new Set(locals().map(({ run }) => runName(run)));
  for (const name of treated.keys()) if (!names.has(name)) treated.delete(name);
  for (const one of locals()) {
    const name = runName(one.run);
    if (treated.has(name) || !one.is_there) continue;
    const all = (await drivers.get(one.driver)?.observe()) ?? [];
    const found = all.find((other) => runName(other.run) === name);
    const treatment = found?.paused ? 'paused' : found?.lowered ? 'lowered' : 'usual';
    treated.set(name, { treatment, pending: false });
  }
}

function known({ locals, whose, treated }: Context): GuardedRun[] {
  return locals().flatMap(({ run, phase }) => {
    const name = runName(run);
    const facts = whose.get(name);
    const now = treated.get(name);
    const runs = phase === 'ready' || phase === 'preparing';
    if (facts === undefined || now === undefined || now.pending || !runs) return [];
    return [{ run, ...facts, treatment: now.treatment }];
  });
}

function change(context: Context, run: RunKey, to: Treatment, why: GuardWhy | null): void {
  const { locals, treated, drivers, clock, log, changed } = context;
  const one = locals().find((other) => runName(other.run) === runName(run));
  const before = treated.get(runName(run));
  const driver = one === undefined ? undefined : drivers.get(one.driver);
  if (one === undefined || before === undefined || driver === undefined) return;
  before.pending = true;
  const work = carryOut(driver, run, before.treatment, to).then((reached) => {
    before.treatment = to;
    note(context, one, reached, why);
    changed();
  });
  withDeadline(clock, driver_patience_ms, 'the driver does not answer', work)
    .catch((error) => {
      const fields = { run: runName(run), to, error: describeError(error) };
      log.warn(fields, 'a run could not be treated as the guard decided');
    })
    .finally(() => {
      before.pending = false;
    });
}

/** What was reached: drivers that cannot make a run stand still give it little CPU instead. */
async function carryOut(
  driver: Driver,
  run: RunKey,
  from: Treatment,
  to: Treatment,
): Promise<Treatment> {
  if (from === 'paused') await driver.resume?.(run);
  if (to === 'usual') {
    await driver.lower?.(run, false);
    return 'usual';
  }
  await driver.lower?.(run, true);
  if (to === 'paused' && driver.pause !== undefined) {
    await driver.pause(run);
    return 'paused';
  }
  return driver.lower === undefined ? 'usual' : 'lowered';
}

function note({ clock }: Context, one: LocalRun, reached: Treatment, why: GuardWhy | null): void {
  const now = clock.monotonic();
  if (one.paused_mono !== undefined) {
    one.paused_ms = (one.paused_ms ?? 0) + (now - one.paused_mono);
    delete one.paused_mono;
  }
  if (reached === 'paused') one.paused_mono = now;
  if (reached === 'usual' || why === null) delete one.guarded;
  else one.guarded = { step: reached, why };
}

function whoseOf({ trust, spec }: DesiredRun): Whose {
  const accelerator = spec?.accelerator ?? 'cpu';
  const uuids = spec?.gpu_uuids ?? [];
  return { is_guest: trust !== 'owner', has_gpu: accelerator !== 'cpu' || uuids.length > 0 };
}

function reportOf({ decision, clock }: Context): GuardReport | undefined {
  if (decision === null) return undefined;
  const { level, why, own_why, grace_ms, until } = decision;
  const until_ms = until === null ? null : Math.max(0, Math.round(until - clock.monotonic()));
  return { level, why, own_why, grace_ms, until_ms };
}

function refusalOf(
  { policy, decision }: Context,
  desired: DesiredRun,
): { code: ReasonCode; details: Details } | null {
  const { spec, trust, tenant, driver, begun } = desired;
  if (spec === null || begun) return null;
  const is_owner = trust === 'owner';
  if (!is_owner) {
    const ask = { ...spec, gpu_count: spec.gpu_uuids?.length ?? 0 };
    const { refuses } = policy.current().policy;
    const rule = brokenRule(refuses, ask, tenant ?? null, driver);
    if (rule !== null) return { code: 'refused_by_machine', details: { rule } };
  }
  const why = decision === null ? null : guardedAgainst(decision, is_owner);
  if (why === null) return null;
  const code = is_owner ? 'machine_low' : 'machine_guarded';
  return { code, details: { why: guardPhrase(why) } };
}
