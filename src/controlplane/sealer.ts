/**
 * The sealer of the activity log: writes the notes that are due, seals what is not sealed, and
 * anchors the newest seals each hour.
 *
 * Invariants: bounded work a tick; a tick that fails is left to the next one, and nothing is
 * written twice; a seal is whole or absent, so a crash at any point is made good by the next tick.
 */
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import { listHeads, listUnsealed, rows_per_seal } from '../store/activity-seal.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { ActivityNotes } from './activity-notes.ts';
import type { Anchors } from './anchors.ts';

export type Sealer = {
  /** One round: resolves when what could be sealed is; rejects where the store refused. */
  tick(): Promise<void>;
  /** Signs the newest seals that were not signed since the start; how many. */
  anchor(): Promise<number>;
};

const every_ms = 1000;
const anchor_every_ms = 3600_000;
const tenants_a_tick = 200;
const seals_a_tenant = 80;
const notes_a_time = 200;
const note_batches = 10;
const heads_a_time = 500;

export function createSealer(deps: {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  notes: ActivityNotes;
  anchors: Anchors;
}): Sealer {
  const { store, clock, random, notes, anchors } = deps;
  const anchored = new Map<string, number>();
  let last: Promise<unknown> = Promise.resolve();

  /** One after the other: two at once would want the same rows. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = last.then(work, work);
    last = next;
    return next;
  }

  async function writeNotes(): Promise<void> {
    for (let count = 0; count < note_batches; count += 1) {
      const taken = notes.take(notes_a_time);
      if (taken.length === 0) return;
      try {
        await store.transact('recordNotes', { notes: taken });
      } catch (error) {
        notes.putBack(taken);
        throw error;
      }
    }
  }

  async function seal(): Promise<void> {
    await writeNotes();
    for (const { tenant_id } of await store.read(listUnsealed, { limit: tenants_a_tick })) {
      for (let count = 0; count < seals_a_tenant; count += 1) {
        const salt_key = Buffer.from(random.bytes(32)).toString('hex');
        const args = { tenant_id, now: clock.now(), salt_key };
        const { sealed } = await store.transact('sealActivity', args);
        if (sealed < rows_per_seal) break;
      }
    }
  }

  async function anchor(): Promise<number> {
    let signed = 0;
    for (let after = ''; ; ) {
      const heads = await store.read(listHeads, { after, limit: heads_a_time });
      const news = heads.filter((head) => head.number > (anchored.get(head.tenant_id) ?? 0));
      anchors.add(news, clock.now());
      for (const head of news) anchored.set(head.tenant_id, head.number);
      signed += news.length;
      const end = heads.at(-1);
      if (heads.length < heads_a_time || end === undefined) return signed;
      after = end.tenant_id;
    }
  }

  return { tick: () => inTurn(seal), anchor: () => inTurn(anchor) };
}

/** Ticks each second until it is stopped; stopping seals and anchors what is left. */
export function startSealer(deps: {
  sealer: Sealer;
  notes: ActivityNotes;
  clock: Clock;
  log: Log;
}): { stop(): Promise<void> } {
  const { sealer, notes, clock, log } = deps;
  const stopping = new AbortController();
  let anchored_at: number | null = null;
  let failing = false;

  async function round(): Promise<void> {
    try {
      await sealer.tick();
      const now = clock.monotonic();
      // Until there was one, each tick tries: the first seal after a start is anchored at once.
      if (anchored_at === null || now - anchored_at >= anchor_every_ms) {
        if ((await sealer.anchor()) > 0) anchored_at = now;
      }
      failing = false;
    } catch (error) {
      if (!failing) log.warn({ error: describeError(error) }, 'the activity log is not sealed');
      failing = true;
    }
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(every_ms, stopping.signal);
      if (!stopping.signal.aborted) await round();
    }
    notes.end();
    anchored_at = null;
    await round();
  }

  const running = loop();
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
