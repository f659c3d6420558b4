/**
 * What the machine has, looked at once a minute and whenever a person asks for it.
 *
 * Invariants: a look goes on beside the reports, because tools of a broken machine take their time
 * and it must be heard of meanwhile; one look at a time; what a look found is told until a report
 * with it was taken, and told only where it is another than was told, or where somebody asked.
 */
import type { Inventory } from '../contract/machines.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';

export type Looking = {
  /** For the hello that begins a session; what was asked for before it is nobody's wish any more. */
  begin(): Promise<Inventory>;
  /** The control plane wants a look of this number. */
  ask(wish: number | undefined): void;
  /** For a report; begins a look where one is due. */
  batch(): { inventory: Inventory | null; looked: number; taken(): void };
};

export type LookingDeps = {
  /** `anew`: a person asks, and all of it is looked at. */
  inventory: (anew: boolean) => Promise<Inventory>;
  clock: Clock;
  log: Log;
  stopping: AbortSignal;
  /** There is something to tell. */
  changed(): void;
};

export const look_every_ms = 60_000;

export function createLooking({ inventory, clock, log, stopping, changed }: LookingDeps): Looking {
  let told = '';
  let looked_at = 0;
  let fresh: Inventory | null = null;
  let is_looking = false;
  /** Of this session: the last wish, and the last that was done. */
  let wishes = { asked: 0, done: 0 };

  async function look(): Promise<void> {
    if (is_looking || stopping.aborted) return;
    is_looking = true;
    looked_at = clock.monotonic();
    const mine = wishes;
    const wish = mine.asked;
    const is_asked = wish > mine.done;
    try {
      const found = await inventory(is_asked);
      fresh = is_asked || textOf(found) !== told ? found : null;
    } catch (error) {
      log.warn({ error: describeError(error) }, 'the machine could not be looked at');
    }
    is_looking = false;
    mine.done = wish;
    if (fresh !== null || is_asked) changed();
    if (wishes.asked > wishes.done) await look();
  }

  return {
    async begin() {
      wishes = { asked: 0, done: 0 };
      fresh = null;
      const found = await inventory(false);
      told = textOf(found);
      looked_at = clock.monotonic();
      return found;
    },
    ask(wish) {
      if (wish === undefined || wish <= wishes.asked) return;
      wishes.asked = wish;
      look();
    },
    batch() {
      if (clock.monotonic() - looked_at >= look_every_ms) look();
      const telling = fresh;
      return {
        inventory: telling,
        looked: wishes.done,
        taken() {
          if (telling === null) return;
          told = textOf(telling);
          if (fresh === telling) fresh = null;
        },
      };
    },
  };
}

/** Free disk changes all the time and is no reason to report. */
function textOf(inventory: Inventory): string {
  const { disk_free_bytes: _, findings: __, ...rest } = inventory;
  return JSON.stringify({ ...rest, offered: { ...rest.offered, disk_bytes: 0 } });
}
