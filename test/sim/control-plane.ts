/**
 * The control plane of a story: the program's own sync, controller, accounting and housekeeping
 * over the database, in one process that can be killed anywhere and comes back.
 *
 * Invariants: put together as `system.ts` does it (without fair share, which orders and decides
 * nothing else), and serving only once that is done; what it is given goes through its life; a
 * start that fails ends the process.
 */
import { createPresence, type Presence } from '../../src/backends/agent/presence.ts';
import { createSync, type SyncHandler } from '../../src/backends/agent/sync.ts';
import { startAccounting } from '../../src/controlplane/accounting.ts';
import { createCatalogs } from '../../src/controlplane/catalogs.ts';
import { numberChanges } from '../../src/controlplane/changes.ts';
import { createController } from '../../src/controlplane/controller.ts';
import { startHousekeeping } from '../../src/controlplane/housekeeping.ts';
import { createMachineViews } from '../../src/controlplane/machine-views.ts';
import { createQueueView } from '../../src/controlplane/queue-view.ts';
import { startReclaims } from '../../src/controlplane/reclaim.ts';
import { countWrites } from '../../src/controlplane/written.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { EinsoraStore } from '../../src/store/transactions.ts';
import type { Database } from './database.ts';
import type { Host } from './host.ts';
import { clockOf, createLife, type Life } from './life.ts';
import type { Story } from './story.ts';

export type ControlPlane = {
  readonly life: Life;
  readonly store: EinsoraStore;
  readonly clock: Clock;
  readonly sync: SyncHandler;
  /** Which of the restored stores it serves: higher is later. */
  readonly incarnation: number;
  /** Told when the process dies: its connections break. */
  readonly connections: Set<() => void>;
  /** Since when it has not heard of a machine what counts, in virtual milliseconds. */
  silence_ms(machine_id: string): number;
  /** What the API does after a write. */
  wake(): void;
  stop(): Promise<void>;
};

/** `onReady` is told what serves, `onDeath` why it does not any more. */
export function startControlPlane(
  story: Story,
  host: Host,
  database: Database,
  onReady: (there: ControlPlane) => void,
  onDeath: (why: string) => void,
): Life {
  const connections = new Set<() => void>();
  const life = createLife(host.name, (why) => {
    for (const breakOff of connections) breakOff();
    onDeath(why);
  });
  serve(story, host, life, database, connections).then(onReady, (error) =>
    life.kill(`at its start: ${error.message}`),
  );
  return life;
}

async function serve(
  story: Story,
  host: Host,
  life: Life,
  database: Database,
  connections: ControlPlane['connections'],
): Promise<ControlPlane> {
  const clock = clockOf(host, life);
  const changes = countWrites(await numberChanges(database.open(life)));
  const { store } = changes;
  const log = story.log(host.name);
  const { presence, silence_ms } = hearing(story, createPresence(clock));
  const { written } = changes;
  const sync = createSync({
    ...{ store, clock, log, presence, written, hold_ms: story.hold_ms },
    changed: () => controller.wake(),
    guarded: (...said) => reclaims.guarded(...said),
  });
  const wake = () => {
    controller.wake();
    sync.wake();
  };
  const reclaims = startReclaims({ store, clock, log, changed: wake, written });
  const accounting = await startAccounting({ store, clock, log, proofs: sync.proofs });
  const machines = createMachineViews({ store, presence });
  const controller = createController({
    ...{ store, clock, log, presence, machines, queue: createQueueView() },
    catalogs: createCatalogs(store, clock),
    uses: async () => [],
    // Nobody asks these endpoints for anything, so they may always go back from a fallback.
    idleOf: () => Number.MAX_SAFE_INTEGER,
    placed: () => sync.wake(),
    written,
  });
  const housekeeping = startHousekeeping({ store, clock, log });
  return {
    ...{ life, store, clock, sync, connections, incarnation: database.incarnation, silence_ms },
    wake() {
      wake();
      reclaims.wake();
    },
    async stop() {
      sync.close();
      await controller.stop();
      await housekeeping.stop();
      await reclaims.stop();
      await accounting.stop();
    },
  };
}

/** Late and doubled words reach it too, and tell it nothing: only what it took counts. */
function hearing({ time }: Story, presence: Presence) {
  const heard = new Map<string, number>();
  return {
    presence: {
      ...presence,
      heard(machine_id: string) {
        heard.set(machine_id, time.now());
        presence.heard(machine_id);
      },
    },
    silence_ms: (machine_id: string) =>
      time.now() - (heard.get(machine_id) ?? Number.NEGATIVE_INFINITY),
  };
}
