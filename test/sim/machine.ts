/**
 * A machine of a story: a computer with its world, a disk for the journal, and the program's own
 * agent on it, which can be killed anywhere and comes back.
 *
 * Invariants: the disk and the processes outlive the agent; only a reboot ends them all.
 */
import { type Agent, createAgent } from '../../src/agent/agent.ts';
import type { Journal, JournalEntry } from '../../src/agent/journal.ts';
import type { GpuRecord } from '../../src/contract/gpus.ts';
import type { GuardReport } from '../../src/contract/guard.ts';
import type { Inventory } from '../../src/contract/machines.ts';
import type { AgentIdentity } from '../../src/contract/sync.ts';
import { parseRunName, type RunKey, runName } from '../../src/core/run.ts';
import type { DriverName } from '../../src/core/trust.ts';
import { gib, gpus_of_machine } from './amounts.ts';
import type { Chance } from './chance.ts';
import type { ControlPlane } from './control-plane.ts';
import { createSimWork } from './endpoint-work.ts';
import type { Host } from './host.ts';
import { clockOf, createLife, type Life } from './life.ts';
import type { Link } from './link.ts';
import type { MachineWorld } from './machine-world.ts';
import type { Order } from './order.ts';
import type { Story } from './story.ts';
import { createTransport } from './transport.ts';

/** Files by name, as text: what an agent keeps over its restarts. */
export type Disk = { files: Map<string, string>; failing: number };

export type Machine = {
  readonly id: string;
  readonly host: Host;
  readonly world: MachineWorld;
  readonly disk: Disk;
  readonly link: Link;
  readonly driver: DriverName;
  /** Of the machine's agents, one after the other. */
  readonly chance: Chance;
  offered: { cpu_millis: number; memory_bytes: number };
  agent: { life: Life; agent: Agent } | null;
  /** What its guard says; null before it said anything. */
  guard: GuardReport | null;
  /** Its driver is gone: an agent that starts cannot tell what runs. */
  is_blind: boolean;
  /** How long the agent stays down when it dies. */
  down_ms: number;
  /** The disk as it was at the last backup. */
  snapshot: Map<string, string>;
};

/** What a guard says that needs nothing. */
export const guard_calm: GuardReport = {
  ...{ level: 0, why: [], own_why: [], grace_ms: 0, until_ms: null },
};

export type AgentPlace = Pick<
  Machine,
  'id' | 'host' | 'world' | 'disk' | 'link' | 'driver' | 'chance' | 'is_blind'
> & {
  offered(): Machine['offered'];
  controlPlane(): ControlPlane | null;
  /** What is said of its owner with each report. */
  guarded?(): GuardReport | null;
  order: Order;
};

export function startAgent(
  story: Story,
  place: AgentPlace,
  onDeath: (why: string) => void,
): { life: Life; agent: Agent } {
  const { host, world, disk, driver } = place;
  const life = createLife(host.name, onDeath);
  const clock = clockOf(host, life);
  const work = createSimWork(world, clock);
  const agent = createAgent({
    transport: createTransport({ ...place, machine_id: place.id, hold_ms: story.hold_ms, life }),
    drivers: place.is_blind ? new Map() : new Map([[driver, world.driver(life)]]),
    works: { endpoint: work, notebook: work, instance: work },
    journal: journalOn(disk, life),
    inventory: () => life.async('inventory', async () => inventoryOf(place)),
    boot_id: host.bootId(),
    clock,
    random: { bytes: (count) => life.sync('random.bytes', () => bytesOf(place.chance, count)) },
    log: story.log(host.name),
  });
  return { life, agent };
}

function journalOn(disk: Disk, life: Life): Journal {
  const nameOf = (run: RunKey) => `${runName(run)}.json`;
  const write = (name: string, text: string) => {
    if (disk.failing > 0) {
      disk.failing -= 1;
      throw new Error('the disk is full');
    }
    disk.files.set(name, text);
  };
  const read = (name: string) => {
    const text = disk.files.get(name);
    return text === undefined ? null : (JSON.parse(text) as JournalEntry);
  };
  return {
    identity: () =>
      life.sync('journal.identity', () => {
        const text = disk.files.get('identity');
        return text === undefined ? null : (JSON.parse(text) as AgentIdentity);
      }),
    writeIdentity: (identity) =>
      life.sync('journal.writeIdentity', () => write('identity', JSON.stringify(identity))),
    list: () =>
      life.sync('journal.list', () =>
        [...disk.files.keys()].flatMap((name) => {
          const run = parseRunName(name.replace(/\.json$/, ''));
          const entry = run === null ? null : read(name);
          return run === null || entry === null ? [] : [{ run, entry }];
        }),
      ),
    read: (run) => life.sync('journal.read', () => read(nameOf(run))),
    write: (run, entry) =>
      life.sync('journal.write', () => write(nameOf(run), JSON.stringify(entry))),
    remove: (run) => life.sync('journal.remove', () => void disk.files.delete(nameOf(run))),
  };
}

function bytesOf(chance: Chance, count: number): Uint8Array {
  return Uint8Array.from({ length: count }, () => chance.between(0, 255));
}

function inventoryOf({ host, driver, offered, is_blind }: AgentPlace): Inventory {
  const amounts = offered();
  return {
    name: host.name,
    ...{ os: 'linux', os_version: '12', arch: 'x64', cpu_model: 'made up', cpu_count: 8 },
    memory_bytes: amounts.memory_bytes,
    disk_free_bytes: 100 * gib,
    offered: { ...amounts, disk_bytes: 50 * gib },
    accelerators: driver === 'sim' ? ['cpu', 'nvidia'] : ['cpu'],
    gpus: driver === 'sim' ? gpusOf(host.name) : [],
    drivers: is_blind
      ? []
      : [{ driver, ready: true, why: null, kinds: ['endpoint', 'notebook'], findings: [] }],
    findings: [],
  };
}

/** Those that the driver sim may hand out; a Mac's containers get none. */
function gpusOf(name: string): GpuRecord[] {
  return Array.from({ length: gpus_of_machine }, (_, index) => ({
    ...{ uuid: `GPU-${name}-${index}`, pci: null, vendor: 'nvidia', model: 'NVIDIA L40S' },
    ...{ memory_bytes: 45 * gib, unified: false, reserved_bytes: 0, state: 'ok' },
    ...{ reasons: [], usable_by: ['docker'], display_attached: false },
    ...{ mig_mode: null, mig_of: null, driver_version: 'made up' },
  }));
}
