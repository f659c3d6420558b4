/**
 * The agent of a made-up machine: the program's own agent over the same sync, with the driver sim
 * under it and an inventory that is only said (ADR-0057). Dev mode and tests start it.
 *
 * Invariants: whatever it reports says that it is made up; what it keeps lies in its own folder and
 * is adopted at the next start; a change of `machine` is told at its next look.
 */
import { join } from 'node:path';
import type { GpuRecord } from '../contract/gpus.ts';
import type { Inventory } from '../contract/machines.ts';
import type { SimMachine } from '../contract/sim-machines.ts';
import { isReasonCode } from '../core/reasons.ts';
import type { RunKey } from '../core/run.ts';
import type { Driver } from '../drivers/driver.ts';
import { createSimDriver, type SimPlan } from '../drivers/sim.ts';
import { sim_answer } from '../drivers/sim-server.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import { type Agent, createAgent, type Transport } from './agent.ts';
import type { GuardParts } from './guard/guard.ts';
import { openJournal } from './journal.ts';
import { patience } from './run-watch.ts';
import { createSimWork } from './sim-work.ts';

export type SimAgentOptions = {
  machine: SimMachine;
  machine_id: string;
  folder: string;
  transport: Transport;
  /** What protects its owner; without it nothing is held back there. */
  guard?: GuardParts;
  clock: Clock;
  random: Random;
  log: Log;
};

export type SimAgent = {
  machine: SimMachine;
  machine_id: string;
  agent: Agent;
  driver: Driver;
  /** Runs that were started, in order. */
  started: readonly RunKey[];
};

const gib = 2 ** 30;

export function startSimAgent(options: SimAgentOptions): SimAgent {
  const { machine, machine_id, folder, transport, clock, random, log } = options;
  const started: RunKey[] = [];
  const script = (run: RunKey): SimPlan => {
    started.push(run);
    return planOf(machine, started.length - 1);
  };
  const { as } = machine;
  const driver = createSimDriver({ folder: join(folder, 'sim'), clock, random, script, as });
  const work = createSimWork({ clock, patience });
  const agent = createAgent({
    transport,
    drivers: new Map([['sim', driver]]),
    works: { endpoint: work, notebook: work, instance: work },
    journal: openJournal(join(folder, 'journal'), log),
    inventory: async () => inventoryOf(machine),
    ...(options.guard === undefined ? {} : { guard: options.guard }),
    samples: 'with_reports',
    boot_id: 'sim-boot',
    ...{ clock, random, log },
  });
  return { machine, machine_id, agent, driver, started };
}

function planOf({ plans, plan }: SimMachine, nth: number): SimPlan {
  const { start_error, ...rest } = plans[nth] ?? plan;
  const how = start_error !== undefined && isReasonCode(start_error) ? { start_error } : {};
  // A plan of a file and one of the driver say the same, but for what is left out.
  return { ...(rest as SimPlan), ...how };
}

/** What it says of itself. */
export function inventoryOf(machine: SimMachine): Inventory {
  const { name, as, kinds, cpus } = machine;
  const memory_bytes = machine.memory_gib * gib;
  const disk_bytes = machine.disk_gib * gib;
  const gpus = gpusOf(machine);
  const has_nvidia = gpus.length > 0;
  const accelerators = machine.accelerators ?? (has_nvidia ? ['cpu', 'nvidia'] : ['cpu']);
  const finding = { check: 'sim', status: 'ok' as const, message: sim_answer, fix: null };
  return {
    ...{ name, os: 'linux', os_version: 'made up', arch: 'x64', cpu_model: 'made up' },
    ...{ cpu_count: cpus, memory_bytes, disk_free_bytes: disk_bytes },
    offered: { cpu_millis: cpus * 1000, memory_bytes, disk_bytes },
    ...{ accelerators, gpus },
    drivers: [
      {
        ...{ driver: 'sim', ready: true, why: null, why_code: null, kinds, findings: [finding] },
        ...(as === null ? {} : { as }),
      },
    ],
    findings: [finding],
  };
}

function gpusOf({ name, gpus }: SimMachine): GpuRecord[] {
  const all = gpus.flatMap(({ count, ...gpu }) => Array.from({ length: count }, () => gpu));
  return all.map(({ model, memory_gib }, index) => ({
    ...{ uuid: `GPU-sim-${name}-${index}`, pci: null, vendor: 'nvidia', model },
    ...{ memory_bytes: memory_gib * gib, unified: false, reserved_bytes: 0, state: 'ok' },
    ...{ reasons: [], usable_by: ['docker', 'libvirt'], display_attached: false },
    ...{ mig_mode: null, mig_of: null, driver_version: 'made up' },
  }));
}
