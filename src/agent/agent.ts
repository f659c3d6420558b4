/**
 * The agent's loop: look at the machine, say hello, then report and get the desired state, for
 * ever.
 *
 * Invariants: nothing is stopped or removed before a complete desired state has come; a control
 * plane that does not answer changes nothing here, nor does one whose store is not the one this
 * machine belongs to, or is older than one it has met; a newer agent of this machine makes this one
 * stop acting.
 */
import type {
  AgentIdentity,
  DesiredRun,
  Hello,
  HelloReply,
  Report,
  SyncReply,
} from '../contract/sync.ts';
import { describeError } from '../lib/log.ts';
import { fraction, type Random } from '../lib/random.ts';
import { createSignal, type Signal } from '../lib/signal.ts';
import type { Doubts } from './doubts.ts';
import type { GpuUse } from './gpu-use.ts';
import { type Guard, type GuardParts, startGuard } from './guard/guard.ts';
import { observedOf } from './local-run.ts';
import { createLooking, type Looking, type LookingDeps, look_every_ms } from './looking.ts';
import type { AgentModels } from './models.ts';
import { reconcile } from './reconcile.ts';
import { createRuns, type Runs, type RunsDeps } from './runs.ts';
import { createSampler, type Sampler } from './sampler.ts';

/** The control plane as the agent reaches it: the same handler in process or over the network. */
export type Transport = {
  hello(words: Hello): Promise<HelloReply>;
  sync(report: Report, signal: AbortSignal): Promise<SyncReply>;
};

export type Agent = {
  /** Resolves once the control plane knows this machine. */
  readonly known: Promise<void>;
  /** Ends the agent; what runs goes on. */
  stop(): Promise<void>;
};

export type AgentDeps = Omit<RunsDeps, 'changed' | 'refusal'> & {
  transport: Transport;
  inventory: LookingDeps['inventory'];
  random: Random;
  /** The models that this machine keeps. */
  models?: AgentModels;
  /** What protects the machine's owner; without it nothing is held back. */
  guard?: GuardParts;
  /** What runs use is told: with the next report, or as soon as it was looked at. */
  samples?: 'with_reports' | 'at_once';
  /** Learns which runs the gateway has doubts of; without it they are not passed on. */
  doubts?: Doubts;
  /** How busy GPUs are, for drivers that do not tell it themselves. */
  gpuUse?: GpuUse;
};

/** Between two tries, doubled up to the limit, and never all agents at once. */
const retry_ms = 1000;
const retry_limit_ms = 30_000;
/** Reports of progress are bundled: at most one in this time. */
const settle_ms = 50;

type Context = Omit<AgentDeps, 'inventory' | 'guard'> & {
  runs: Runs;
  guard: Guard | null;
  sampler: Sampler | null;
  /** There is something to report. */
  news: Signal;
  stopping: AbortSignal;
  /** Lets the poll that is open end. */
  endPoll: () => void;
  /** The control plane knows this machine. */
  markKnown: () => void;
  /** Tries in a row that came to nothing. */
  failures: number;
  /** Which store is obeyed, and as whom; null before the first hello. */
  identity: AgentIdentity | null;
  /** Of the hello that was not answered yet. */
  hello_id: string | null;
  /** Number of the last report of this session. */
  seq: number;
  looking: Looking;
};

export function createAgent(deps: AgentDeps): Agent {
  const news = createSignal();
  const stopping = new AbortController();
  const runs = createRuns({
    ...{ ...deps, changed: () => news.notify() },
    refusal: (desired) => guard?.refusal(desired) ?? null,
  });
  deps.models?.onChange(() => news.notify());
  const sampler = deps.samples === undefined ? null : samplerOf(deps, runs, news);
  const guard = guardOf(deps, runs, news);
  let markKnown = () => {};
  const known = new Promise<void>((resolve) => {
    markKnown = resolve;
  });
  const changed = () => news.notify();
  const looking = createLooking({ ...deps, stopping: stopping.signal, changed });
  const context: Context = {
    ...{ ...deps, runs, guard, sampler, news, stopping: stopping.signal, markKnown, failures: 0 },
    endPoll: () => {},
    ...{ identity: null, hello_id: null, seq: 0, looking },
  };
  const running = loop(context).catch((error) => {
    deps.log.error({ error: describeError(error) }, 'the agent ended');
  });
  return {
    known,
    async stop() {
      stopping.abort();
      context.endPoll();
      await running;
      await guard?.stop();
      await runs.leave();
      await sampler?.stop();
      await deps.models?.stop();
    },
  };
}

function guardOf({ guard, ...deps }: AgentDeps, runs: Runs, news: Signal): Guard | null {
  if (guard === undefined) return null;
  const { drivers, clock, log } = deps;
  return startGuard({
    ...{ ...guard, drivers, clock, log, locals: runs.locals, park: runs.parkFor },
    changed: () => news.notify(),
  });
}

function samplerOf(deps: AgentDeps, runs: Runs, news: Signal): Sampler {
  const { drivers, clock, samples, gpuUse } = deps;
  return createSampler({
    gpuUse,
    ...{ drivers, clock },
    ready: () => runs.locals().filter(({ phase }) => phase === 'ready'),
    sampled: () => {
      if (samples === 'at_once') news.notify();
    },
  });
}

async function loop(context: Context): Promise<void> {
  const { runs, journal, log, stopping } = context;
  let adopted = false;
  while (!stopping.aborted) {
    try {
      context.identity ??= journal.identity();
      if (!adopted) await runs.adopt();
      adopted = true;
      if ((await session(context)) === 'stale_agent') {
        log.error({}, 'another agent speaks for this machine; this one stops acting');
        await context.guard?.stop();
        await runs.leave();
        await context.sampler?.stop();
        return;
      }
    } catch (error) {
      await rest(context, error);
    }
  }
}

/** After something failed: a while that grows, and differs from agent to agent. */
async function rest(context: Context, error: unknown): Promise<void> {
  const { clock, log, random, stopping } = context;
  if (stopping.aborted) return;
  log.warn({ error: describeError(error) }, 'the agent could not go on and tries again');
  const most_ms = Math.min(retry_limit_ms, retry_ms * 2 ** context.failures);
  context.failures += 1;
  await clock.sleep(most_ms * (0.5 + fraction(random) / 2), stopping);
}

async function session(context: Context): Promise<'hello_again' | 'stale_agent' | 'stopped'> {
  const { runs, stopping } = context;
  const greeted = await greet(context);
  context.seq = 0;
  let have_generation = -1;
  let desired: readonly DesiredRun[] = [];
  while (!stopping.aborted) {
    let reply: SyncReply;
    try {
      reply = await exchange(context, greeted, have_generation);
    } catch (error) {
      await rest(context, error);
      continue;
    }
    context.failures = 0;
    context.guard?.heard();
    if (reply.outcome === 'stale_report') continue;
    if (reply.outcome !== 'accepted') return reply.outcome;
    if (reply.store_uuid !== greeted.store_uuid || reply.store_epoch !== greeted.store_epoch) {
      throw new Error('another store answered than the one that greeted this agent');
    }
    have_generation = reply.generation;
    desired = reply.desired ?? desired;
    if (reply.models !== undefined) context.models?.learn(reply.models);
    context.looking.ask(reply.look);
    context.doubts?.learn(reply.doubted ?? []);
    if (reply.desired !== null) {
      context.sampler?.learn(reply.desired);
      context.guard?.learn(reply.desired);
    }
    runs.carryOut(reconcile(runs.narrowed(desired), runs.facts()));
  }
  return 'stopped';
}

/** Says hello until the control plane takes it. Throws where it does not. */
async function greet(context: Context): Promise<AgentIdentity> {
  const { transport, boot_id, random } = context;
  const inventory = await context.looking.begin();
  for (;;) {
    context.hello_id ??= Buffer.from(random.bytes(16)).toString('hex');
    const { hello_id, identity: known } = context;
    const reply = await transport.hello({ boot_id, hello_id, known, inventory });
    if (reply.outcome !== 'greeted' && reply.outcome !== 'behind') {
      context.hello_id = null;
      throw new Error(refusals[reply.outcome]);
    }
    const { outcome, ...identity } = reply;
    checkStore(context.identity, identity);
    context.hello_id = null;
    context.identity = identity;
    if (outcome === 'behind') continue;
    keepIdentity(context, known, identity);
    context.markKnown();
    return identity;
  }
}

const refusals = {
  unknown_machine: 'the control plane does not know this machine',
  other_boot: 'this machine is still heard of from another boot; is its data folder in use twice?',
  newer_store: 'this control plane is older than one that this machine has met',
} as const;

/** A machine belongs to one store, and of its restored copies it obeys the latest it has met. */
function checkStore(known: AgentIdentity | null, told: AgentIdentity): void {
  if (known === null) return;
  if (told.store_uuid !== known.store_uuid) {
    throw new Error('this machine belongs to another deployment');
  }
  if (told.store_epoch < known.store_epoch) throw new Error(refusals.newer_store);
}

/** On disk before it is obeyed. A full disk is no reason not to go on with the same store. */
function keepIdentity(
  { journal, log }: Context,
  known: AgentIdentity | null,
  identity: AgentIdentity,
): void {
  try {
    journal.writeIdentity(identity);
  } catch (error) {
    if (known?.store_epoch !== identity.store_epoch) throw error;
    log.warn({ error: describeError(error) }, 'the identity could not be written');
  }
}

/** One report; the poll it opens ends early when there is something new to say. */
async function exchange(
  context: Context,
  greeted: AgentIdentity,
  have_generation: number,
): Promise<SyncReply> {
  const { transport, clock, boot_id, runs, models, news, stopping } = context;
  context.seq += 1;
  const poll = new AbortController();
  context.endPoll = () => poll.abort('it stops');
  if (stopping.aborted) context.endPoll();
  const batch = context.sampler?.batch();
  const look = context.looking.batch();
  const guard = context.guard?.report();
  const report: Report = {
    boot_id,
    ...greeted,
    seq: context.seq,
    have_generation,
    mono_ms: Math.floor(clock.monotonic()),
    observed: runs.locals().map((one) => observedOf(one, clock)),
    inventory: look.inventory,
    ...(look.looked === 0 ? {} : { looked: look.looked }),
    ...(guard === undefined ? {} : { guard }),
    ...(models === undefined ? {} : { models: models.observed() }),
    ...(batch === undefined || batch.samples.length === 0 ? {} : { samples: batch.samples }),
  };
  const reply = transport.sync(report, poll.signal);
  let took_news = false;
  let settled = () => {};
  const listened = news.next(clock, look_every_ms, () => {
    took_news = true;
    settled = clock.after(settle_ms, () => poll.abort('there is news'));
  });
  try {
    const answered = await reply;
    if (answered.outcome === 'accepted') {
      batch?.taken();
      look.taken();
    }
    return answered;
  } finally {
    listened();
    settled();
    // What the news stood for is in no report yet.
    if (took_news && !poll.signal.aborted) news.notify();
  }
}
