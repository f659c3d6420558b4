/**
 * The agent's loop: look at the machine, say hello, then report and get the desired state, for
 * ever.
 *
 * Invariants: nothing is stopped or removed before a complete desired state has come; a control
 * plane that does not answer changes nothing here; a newer agent of this machine makes this one
 * stop acting.
 */
import type { Inventory } from '../contract/machines.ts';
import type { Hello, HelloReply, Report, SyncReply } from '../contract/sync.ts';
import { describeError } from '../lib/log.ts';
import { createSignal, type Signal } from '../lib/signal.ts';
import { observedOf } from './local-run.ts';
import { reconcile } from './reconcile.ts';
import { createRuns, type Runs, type RunsDeps } from './runs.ts';

/** The control plane as the agent reaches it: the same handler in process or over the network. */
export type Transport = {
  hello(words: Hello): Promise<HelloReply | null>;
  sync(report: Report, signal: AbortSignal): Promise<SyncReply>;
};

export type Agent = {
  /** Resolves once the control plane knows this machine. */
  readonly known: Promise<void>;
  /** Ends the agent; what runs goes on. */
  stop(): Promise<void>;
};

export type AgentDeps = Omit<RunsDeps, 'changed'> & {
  transport: Transport;
  inventory: () => Promise<Inventory>;
};

const retry_ms = 1000;
/** Reports of progress are bundled: at most one in this time. */
const settle_ms = 50;
const inventory_every_ms = 60_000;

type Context = AgentDeps & {
  runs: Runs;
  /** There is something to report. */
  news: Signal;
  stopping: AbortSignal;
  /** The control plane knows this machine. */
  markKnown: () => void;
  /** Number of the last report of this session. */
  seq: number;
  /** What the control plane was told of the machine, and when it was looked at. */
  inventory_text: string;
  inventory_at: number;
};

export function createAgent(deps: AgentDeps): Agent {
  const news = createSignal();
  const stopping = new AbortController();
  const runs = createRuns({ ...deps, changed: () => news.notify() });
  let markKnown = () => {};
  const known = new Promise<void>((resolve) => {
    markKnown = resolve;
  });
  const start = { seq: 0, inventory_text: '', inventory_at: 0 };
  const context = { ...deps, runs, news, stopping: stopping.signal, markKnown, ...start };
  const running = loop(context).catch((error) => {
    deps.log.error({ error: describeError(error) }, 'the agent ended');
  });
  return {
    known,
    async stop() {
      stopping.abort();
      await running;
      await runs.leave();
    },
  };
}

async function loop(context: Context): Promise<void> {
  const { runs, clock, log, stopping } = context;
  let adopted = false;
  while (!stopping.aborted) {
    try {
      if (!adopted) await runs.adopt();
      adopted = true;
      if ((await session(context)) === 'stale_agent') {
        log.error({}, 'another agent speaks for this machine; this one stops acting');
        return;
      }
    } catch (error) {
      if (stopping.aborted) return;
      log.warn({ error: describeError(error) }, 'the agent could not go on and tries again');
      await clock.sleep(retry_ms, stopping);
    }
  }
}

async function session(context: Context): Promise<'hello_again' | 'stale_agent' | 'stopped'> {
  const { transport, clock, boot_id, runs, stopping } = context;
  const inventory = await context.inventory();
  context.inventory_text = JSON.stringify(withoutDisk(inventory));
  context.inventory_at = clock.monotonic();
  const greeted = await transport.hello({ boot_id, inventory });
  if (greeted === null) throw new Error('the control plane does not know this machine');
  context.markKnown();
  context.seq = 0;
  let have_generation = -1;
  while (!stopping.aborted) {
    const reply = await exchange(context, greeted, have_generation);
    if (reply.outcome !== 'accepted') return reply.outcome;
    have_generation = reply.generation;
    runs.carryOut(reconcile(reply.desired, runs.facts()));
  }
  return 'stopped';
}

/** One report; the poll it opens ends early when there is something new to say. */
async function exchange(
  context: Context,
  greeted: HelloReply,
  have_generation: number,
): Promise<SyncReply> {
  const { transport, clock, boot_id, runs, news, stopping } = context;
  context.seq += 1;
  const poll = new AbortController();
  const either = AbortSignal.any([poll.signal, stopping]);
  const report: Report = {
    boot_id,
    ...greeted,
    seq: context.seq,
    have_generation,
    observed: runs.locals().map(observedOf),
    inventory: await newInventory(context),
  };
  const reply = transport.sync(report, either);
  const done = new AbortController();
  const waiting = news
    .wait(clock, inventory_every_ms, done.signal)
    .then(() => clock.sleep(settle_ms, done.signal))
    .then(() => poll.abort());
  try {
    return await reply;
  } finally {
    const said = poll.signal.aborted;
    done.abort();
    await waiting;
    // A wait that this report ended took the news with it: what it stood for is in no report yet.
    if (!said) news.notify();
  }
}

/** What the machine has, where that is another than was told; looked at once a minute. */
async function newInventory(context: Context): Promise<Inventory | null> {
  const { clock } = context;
  if (clock.monotonic() - context.inventory_at < inventory_every_ms) return null;
  context.inventory_at = clock.monotonic();
  const inventory = await context.inventory();
  const text = JSON.stringify(withoutDisk(inventory));
  if (text === context.inventory_text) return null;
  context.inventory_text = text;
  return inventory;
}

/** Free disk changes all the time and is no reason to report. */
function withoutDisk(inventory: Inventory): unknown {
  const { disk_free_bytes: _, findings: __, ...rest } = inventory;
  return { ...rest, offered: { ...rest.offered, disk_bytes: 0 } };
}
