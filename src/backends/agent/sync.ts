/**
 * The control plane's end of sync: takes an agent's report and answers with the machine's complete
 * desired state, at once where it changed, else after the hold (ADR-0016).
 *
 * Invariants: a report is stored before anything is held; one that is not newer than the last
 * accepted one changes nothing; a newer agent of the same machine ends an older one; a poll that
 * changes nothing writes nothing; one poll per machine is held, a newer one ends it.
 */
import type { GuardReport } from '../../contract/guard.ts';
import { limits } from '../../contract/limits.ts';
import type {
  Hello,
  HelloReply,
  ObservedRun,
  Report,
  RunSample,
  SyncReply,
} from '../../contract/sync.ts';
import { desiredRuns } from '../../core/desired.ts';
import { type RunKey, runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import { createSignal, type Signal } from '../../lib/signal.ts';
import { findMachine, machineInBrief } from '../../store/machines.ts';
import type { Heard, MachineProof } from '../../store/proofs.ts';
import { type DesiredRow, runsOfMachine } from '../../store/runs.ts';
import type { Query } from '../../store/sql.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import { createGenerations, type Generations } from './generations.ts';
import { gpuNews } from './gpu-news.ts';
import type { ModelSync } from './models.ts';
import type { Presence } from './presence.ts';
import type { WithSecrets } from './run-secrets.ts';
import { createSleepGauge, type SleepGauge } from './sleep-gauge.ts';

/** What an agent calls: in process for Solo, over mTLS for others. */
export type SyncHandler = {
  /** `is_only`: the caller knows that no other agent of this machine can live (Solo's own). */
  hello(machine_id: string, hello: Hello, is_only?: boolean): Promise<HelloReply>;
  sync(machine_id: string, report: Report, signal: AbortSignal): Promise<SyncReply>;
  /** Until when each machine's agent said of its runs what the store has of them. */
  proofs(): MachineProof[];
  /** Has a machine look at itself anew; false where its agent did not in time. */
  lookAnew(machine_id: string): Promise<boolean>;
  /** Wakes held polls: something may have changed what machines should run. */
  wake(): void;
  close(): void;
};

export type SyncDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  presence: Presence;
  /** For what is recorded of machines; without it nothing is. */
  random?: Random;
  /** Another number after each write of this control plane; without it reads are more frequent. */
  written?: () => number;
  /** For how long a poll is held; without it as `limits` has it. */
  hold_ms?: number;
  /** Called when a report changed something that admission may care about. */
  changed: () => void;
  /** Models in the sync; without it there are none. */
  models?: ModelSync;
  /** What runs use; without it nobody is told. */
  samples?: { take(machine_id: string, mono_ms: number, samples: RunSample[]): Promise<void> };
  /** What a machine's guard says, with each report; what follows from it is carried out there. */
  guarded?: (machine_id: string, guard: GuardReport) => Promise<void>;
  /** Whether the gateway got nothing from a run of late; without it nobody has doubts. */
  isDoubted?: (run: RunKey) => boolean;
  /** Adds to a run what only its machine is told; without it nothing is. */
  withSecrets?: WithSecrets;
  /** Made-up machines may take another driver's row of the trust matrix (ADR-0057). */
  dev?: boolean;
};

/** What is known of one agent since its hello. */
type Session = {
  agent_epoch: number;
  seq: number;
  /** What its last stored report proved. */
  applied: string;
  /** What its last report said that runs. */
  heard: Heard | null;
  sleep: SleepGauge;
  held: Signal;
  /** Number of its newest poll. */
  poll: number;
  look: Look;
};

/** Looks that were asked for: the last that was wished, told to the agent, and done by it. */
type Look = { asked: number; told: number; done: number; waiting: Set<Signal> };

type Context = SyncDeps & {
  sessions: Map<string, Session>;
  generations: Generations;
  closed: boolean;
};

export function createSync(deps: SyncDeps): SyncHandler {
  const sessions = new Map<string, Session>();
  const generations = createGenerations(deps, () => {
    for (const session of sessions.values()) session.held.notify();
  });
  const context: Context = { ...deps, sessions, generations, closed: false };
  return {
    hello: (machine_id, words, is_only = false) => hello(context, machine_id, words, is_only),
    sync: (machine_id, report, signal) => sync(context, machine_id, report, signal),
    wake: () => generations.change(),
    proofs: () => proofsOf(context),
    lookAnew: (machine_id) => lookAnew(context, machine_id),
    close() {
      context.closed = true;
      for (const { held, look } of sessions.values()) {
        held.notify();
        wakeAll(look);
      }
    },
  };
}

async function hello(
  context: Context,
  machine_id: string,
  words: Hello,
  is_only: boolean,
): Promise<HelloReply> {
  const { store, clock, presence, sessions, changed } = context;
  const { boot_id, hello_id, known, inventory } = words;
  const before_machine = await store.read(findMachine, { machine_id });
  const greeted = await store.transact('greetMachine', {
    ...{ machine_id, boot_id, hello_id, known },
    is_heard: !is_only && presence.isOnline(machine_id),
    ...{ name: inventory.name, offered: inventory.offered },
    inventory: JSON.stringify(inventory),
    news: gpuNews(context, before_machine, inventory),
    now: clock.now(),
  });
  if (greeted.outcome !== 'greeted') {
    context.log.warn({ machine_id, outcome: greeted.outcome }, 'a hello was not taken');
    return greeted;
  }
  presence.heard(machine_id);
  const before = sessions.get(machine_id);
  // A repeat of the hello that began the session leaves it as it is.
  if (before !== undefined && before.agent_epoch >= greeted.agent_epoch) return greeted;
  const { agent_epoch } = greeted;
  const look = { asked: 0, told: 0, done: 0, waiting: new Set<Signal>() };
  const parts = { sleep: createSleepGauge(), held: createSignal(), look };
  const begun = { seq: 0, applied: '', heard: null, poll: 0 };
  sessions.set(machine_id, { ...begun, ...parts, agent_epoch });
  before?.held.notify();
  changed();
  return greeted;
}

async function sync(
  context: Context,
  machine_id: string,
  report: Report,
  signal: AbortSignal,
): Promise<SyncReply> {
  if (!(await isOurs(context, report))) return { outcome: 'hello_again' };
  // One that was removed is heard no more; its next hello is told so.
  if ((await context.generations.of(machine_id)) === undefined) {
    context.sessions.delete(machine_id);
    return { outcome: 'hello_again' };
  }
  // From here to the note of its number nothing waits, or a report could be taken twice.
  const session = context.sessions.get(machine_id);
  if (session === undefined) return { outcome: 'hello_again' };
  if (report.agent_epoch < session.agent_epoch) return { outcome: 'stale_agent' };
  if (report.agent_epoch > session.agent_epoch) return { outcome: 'hello_again' };
  if (report.seq <= session.seq) return { outcome: 'stale_report' };
  session.seq = report.seq;
  context.presence.heard(machine_id);
  await applyReported(context, machine_id, session, report);
  if ((report.looked ?? 0) > session.look.done) {
    session.look.done = report.looked ?? 0;
    wakeAll(session.look);
  }
  await noteSleep(context, machine_id, session, report);
  if (report.guard !== undefined) await noteGuard(context, machine_id, report.guard);
  if (report.samples !== undefined && report.mono_ms !== undefined) {
    await context.samples?.take(machine_id, report.mono_ms, report.samples);
  }
  if (report.models !== undefined && (await context.models?.apply(machine_id, report.models))) {
    context.generations.change();
  }
  const { have_generation } = report;
  const reply = await holdUntilChanged(context, machine_id, session, have_generation, signal);
  return withDoubts(context, report, reply);
}

/** As of now, with every answer: a doubt that is left out is over. */
function withDoubts({ isDoubted }: Context, report: Report, reply: SyncReply): SyncReply {
  if (reply.outcome !== 'accepted' || isDoubted === undefined) return reply;
  const doubted = report.observed
    .filter((run) => run.state === 'ready' && isDoubted(run))
    .map(({ workload_id, replica, run_epoch }) => ({ workload_id, replica, run_epoch }));
  return doubted.length === 0 ? reply : { ...reply, doubted };
}

/** In memory, as liveness is: the next report says it again. */
async function noteGuard(context: Context, machine_id: string, guard: GuardReport): Promise<void> {
  const is_news = context.presence.setGuard(machine_id, guard);
  await context.guarded?.(machine_id, guard);
  if (is_news) context.changed();
}

async function lookAnew(context: Context, machine_id: string): Promise<boolean> {
  const { sessions, clock } = context;
  const session = sessions.get(machine_id);
  if (session === undefined) return false;
  const { look, held } = session;
  look.asked += 1;
  const wanted = look.asked;
  held.notify();
  const deadline = clock.monotonic() + limits.machine_look_ms;
  const news = createSignal();
  look.waiting.add(news);
  try {
    while (look.done < wanted) {
      const left = deadline - clock.monotonic();
      if (left <= 0 || context.closed || sessions.get(machine_id) !== session) return false;
      await news.wait(clock, left);
    }
    return true;
  } finally {
    look.waiting.delete(news);
  }
}

function wakeAll(look: Look): void {
  for (const news of look.waiting) news.notify();
}

/** A report for another store, or for another copy of this one, is none for us. */
async function isOurs({ generations }: Context, report: Report): Promise<boolean> {
  const { store_uuid, store_epoch } = await generations.identity();
  return report.store_uuid === store_uuid && report.store_epoch === store_epoch;
}

function proofsOf({ sessions }: Context): MachineProof[] {
  return [...sessions].flatMap(([machine_id, { heard }]) =>
    heard === null || heard.runs.length === 0 ? [] : [{ machine_id, ...heard }],
  );
}

/** What the machine slept since its last reports is taken off what its runs are metered. */
async function noteSleep(
  { store, clock }: Context,
  machine_id: string,
  session: Session,
  { mono_ms }: Report,
): Promise<void> {
  if (mono_ms === undefined) return;
  const slept = session.sleep.observe(clock.monotonic(), mono_ms);
  if (slept === null) return;
  const at = { now: clock.now(), mono: slept.woke_ms };
  const { runs = [] } = session.heard ?? {};
  const { slept_ms } = slept;
  await store.transact('deductSleep', { ...at, machine_id, slept_ms, runs });
}

async function applyReported(
  context: Context,
  machine_id: string,
  session: Session,
  report: Report,
): Promise<void> {
  const { store, clock, presence, changed, generations } = context;
  for (const run of report.observed) {
    if (run.state === 'removed') presence.forget(run);
    else presence.setStages(run, run.stages);
  }
  const proof = JSON.stringify(report.observed.map(toProof));
  const before = session.heard;
  session.heard = heardIn(report, clock);
  if (proof === session.applied && report.inventory === null) return;
  const { name: machine_name = machine_id } =
    (await store.read(machineInBrief, { machine_id })) ?? {};
  if (report.inventory !== null) {
    const machine = await store.read(findMachine, { machine_id });
    const inventory = JSON.stringify(report.inventory);
    const { name, offered } = report.inventory;
    const news = gpuNews(context, machine, report.inventory);
    await store.transact('updateInventory', { machine_id, name, offered, inventory, news });
    changed();
  }
  const applied = await store.transact('applyReport', {
    machine_id,
    machine_name,
    observed: report.observed,
    now: clock.now(),
    mono: clock.monotonic(),
    heard: before,
    actor: `machine:${machine_name}`,
    request_id: null,
  });
  session.applied = proof;
  if (applied.changed > 0) {
    generations.change();
    changed();
  }
}

/** Only what is ready is measured, so only that is worth proving. */
function heardIn(report: Report, clock: Clock): Heard {
  const ready = report.observed.filter((run) => run.state === 'ready');
  return { mono: ready.length === 0 ? 0 : clock.monotonic(), runs: ready.map(runName) };
}

/** Stages and ages come and go without a write; what proves something is compared without them. */
function toProof(run: ObservedRun): ObservedRun {
  return { ...run, stages: [], ended_ago_ms: null };
}

async function holdUntilChanged(
  context: Context,
  machine_id: string,
  session: Session,
  have_generation: number,
  signal: AbortSignal,
): Promise<SyncReply> {
  const { clock, sessions, generations, hold_ms = limits.sync_hold_ms } = context;
  const deadline = clock.monotonic() + hold_ms;
  session.poll += 1;
  const { poll } = session;
  session.held.notify(); // an earlier poll of this machine ends
  for (;;) {
    if (sessions.get(machine_id) !== session) return { outcome: 'stale_agent' };
    const generation = await generations.of(machine_id);
    if (generation === undefined) return { outcome: 'hello_again' };
    const left = deadline - clock.monotonic();
    const is_over = left <= 0 || signal.aborted || context.closed || session.poll !== poll;
    const is_asked = session.look.asked > session.look.told;
    if (is_over || is_asked || generation !== have_generation) {
      const reply = await answer(context, machine_id, generation, have_generation);
      return withLook(session.look, reply);
    }
    await session.held.wait(clock, left, signal);
  }
}

/** Told again until it is done: an answer may be lost. */
function withLook(look: Look, reply: SyncReply): SyncReply {
  if (reply.outcome !== 'accepted' || look.done >= look.asked) return reply;
  look.told = look.asked;
  return { ...reply, look: look.asked };
}

async function answer(
  { store, generations, models: model_sync, withSecrets, dev }: Context,
  machine_id: string,
  generation: number,
  have_generation: number,
): Promise<SyncReply> {
  const identity = await generations.identity();
  if (generation === have_generation) {
    return { outcome: 'accepted', ...identity, generation, desired: null };
  }
  const found = await store.read(desiredOfMachine, { machine_id });
  if (found === undefined) return { outcome: 'hello_again' };
  // Somebody wrote without telling: else the next poll would be answered at once, for ever.
  if (found.generation !== generation) generations.change();
  const owned = desiredRuns(found.rows, dev).map((run, index) => ({
    run,
    tenant_id: found.rows[index]?.tenant_id ?? '',
  }));
  const models = await model_sync?.desired(machine_id, owned);
  const add = withSecrets ?? (async ({ run }) => run);
  const desired = await Promise.all(owned.map(add));
  return { outcome: 'accepted', ...identity, generation: found.generation, desired, models };
}

/** Both in one read: a generation never comes with the rows of another. */
const desiredOfMachine: Query<
  { machine_id: string },
  { generation: number; rows: DesiredRow[] } | undefined
> = async (sql, args) => {
  const machine = await machineInBrief(sql, args);
  if (machine === undefined) return undefined;
  return { generation: machine.generation, rows: await runsOfMachine(sql, args) };
};
