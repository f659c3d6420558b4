/**
 * The agent's loop: look at the machine, say hello, then report and get the desired state, for ever.
 *
 * Invariants: nothing is stopped or removed before a complete desired state has come; a control plane
 * that does not answer changes nothing here; a newer agent of this machine makes this one stop acting.
 */

import type { Inventory } from '../contract/machines.ts';
import type { Hello, HelloReply, Report, SyncReply } from '../contract/sync.ts';
import { describeError } from '../lib/log.ts';
import { createSignal } from '../lib/signal.ts';
import { observedOf } from './local-run.ts';
import { reconcile } from './reconcile.ts';
import { createRuns, type RunsDeps } from './runs.ts';

/** The control plane as the agent reaches it: the same handler in process or over the network. */
export type Transport = {
  hello(words: Hello): Promise<HelloReply | null>;
  sync(report: Report, signal: AbortSignal): Promise<SyncReply>;
};

export type Agent = {
  /** Resolves once the control plane knows this machine. */
  readonly known: Promise<void>;
  /** Names of the workloads that go on when the agent leaves. */
  stop(): Promise<void>;
};

const retry_ms = 1000;
/** Reports of progress are bundled: at most one in this time. */
const settle_ms = 50;
const inventory_every_ms = 60_000;

export function createAgent(
  deps: Omit<RunsDeps, 'changed'> & {
    transport: Transport;
    inventory: () => Promise<Inventory>;
  },
): Agent {
  const { transport, clock, log, boot_id } = deps;
  const signal = createSignal();
  const stopping = new AbortController();
  const runs = createRuns({ ...deps, changed: () => signal.notify() });
  let seq = 0;
  let inventory_at = 0;
  let inventory_text = '';
  let markKnown = () => {};
  const known = new Promise<void>((resolve) => {
    markKnown = resolve;
  });

  async function session(): Promise<'hello_again' | 'stale_agent' | 'stopped'> {
    const inventory = await deps.inventory();
    inventory_text = JSON.stringify(withoutDisk(inventory));
    inventory_at = clock.monotonic();
    const greeted = await transport.hello({ boot_id, inventory });
    if (greeted === null) throw new Error('the control plane does not know this machine');
    markKnown();
    seq = 0;
    let have_generation = -1;
    while (!stopping.signal.aborted) {
      const reply = await exchange(greeted, have_generation);
      if (reply.outcome !== 'accepted') return reply.outcome;
      have_generation = reply.generation;
      runs.carryOut(reconcile(reply.desired, runs.facts()));
    }
    return 'stopped';
  }

  /** One report; the poll it opens ends early when there is something new to say. */
  async function exchange(greeted: HelloReply, have_generation: number): Promise<SyncReply> {
    seq += 1;
    const poll = new AbortController();
    const either = AbortSignal.any([poll.signal, stopping.signal]);
    const report: Report = {
      boot_id,
      ...greeted,
      seq,
      have_generation,
      observed: runs.locals().map(observedOf),
      inventory: await newInventory(),
    };
    const reply = transport.sync(report, either);
    const done = new AbortController();
    const news = signal
      .wait(clock, inventory_every_ms, done.signal)
      .then(() => clock.sleep(settle_ms, done.signal))
      .then(() => poll.abort());
    try {
      return await reply;
    } finally {
      const said = poll.signal.aborted;
      done.abort();
      await news;
      // A wait that this report ended took the signal with it: what it stood for is in no report yet.
      if (!said) signal.notify();
    }
  }

  async function newInventory(): Promise<Inventory | null> {
    if (clock.monotonic() - inventory_at < inventory_every_ms) return null;
    inventory_at = clock.monotonic();
    const inventory = await deps.inventory();
    const text = JSON.stringify(withoutDisk(inventory));
    if (text === inventory_text) return null;
    inventory_text = text;
    return inventory;
  }

  async function loop(): Promise<void> {
    let adopted = false;
    while (!stopping.signal.aborted) {
      try {
        if (!adopted) await runs.adopt();
        adopted = true;
        if ((await session()) === 'stale_agent') {
          log.error({}, 'another agent speaks for this machine; this one stops acting');
          return;
        }
      } catch (error) {
        if (stopping.signal.aborted) return;
        log.warn({ error: describeError(error) }, 'the agent could not go on and tries again');
        await clock.sleep(retry_ms, stopping.signal);
      }
    }
  }

  const running = loop().catch((error) => {
    log.error({ error: describeError(error) }, 'the agent ended');
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

/** Free disk changes all the time and is no reason to report. */
function withoutDisk(inventory: Inventory): unknown {
  const { disk_free_bytes: _, findings: __, ...rest } = inventory;
  return { ...rest, offered: { ...rest.offered, disk_bytes: 0 } };
}
