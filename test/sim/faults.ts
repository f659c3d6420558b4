/**
 * What goes wrong in a story, and how everything is made well again.
 */
import { type Clone, startClone } from './clone.ts';
import { overfill } from './demands.ts';
import type { Deployment } from './deployment.ts';
import { fair, type Link } from './link.ts';
import { guard_calm, type Machine } from './machine.ts';
import { stepAtRest } from './rest.ts';
import { backUp, restore } from './restore.ts';
import type { Fault, Who } from './schedule.ts';
import type { Story } from './story.ts';
import { uproot } from './uproot.ts';

export type Faults = {
  happen(fault: Fault): void;
  /** Ends every fault, and lets none begin. */
  heal(): void;
};

type Context = {
  story: Story;
  deployment: Deployment;
  is_over: boolean;
  clones: Clone[];
  /** Does it later, unless everything was made well before. */
  later(ms: number, work: () => void): void;
};
type Of<Does extends Fault['does']> = Extract<Fault, { does: Does }>;

export function createFaults(story: Story, deployment: Deployment): Faults {
  const context: Context = {
    ...{ story, deployment, is_over: false, clones: [] },
    later: (ms, work) =>
      void story.time.at(story.time.now() + ms, () => {
        if (!context.is_over) work();
      }),
  };
  return {
    happen: (fault) => {
      if (!context.is_over) happen(context, fault);
    },
    heal: () => heal(context),
  };
}

function happen(context: Context, fault: Fault): void {
  const { deployment } = context;
  if (fault.does === 'crash') crash(context, fault);
  else if (fault.does === 'restart') restart(context, fault.who, fault.down_ms);
  else if (fault.does === 'weather') weather(context, fault);
  else if (fault.does === 'step') step(context, fault.who, fault.by_ms);
  else if (fault.does === 'step-at-rest') {
    stepAtRest(context, () => step(context, 'control plane', fault.by_ms));
  } else if (fault.does === 'writes') {
    deployment.database.fail(fault.code, fault.happens, fault.count);
  } else if (fault.does === 'backup') {
    if (fault.of_placing) backUpPlacing(context, placing_looks);
    else backUp(context.story, deployment);
  } else if (fault.does === 'restore') restoreStore(context, fault);
  else if (fault.does === 'uproot') uproot(context, fault);
  else if (fault.does === 'overfill') overfill(context);
  else {
    const machine = machineOf(context, fault.machine);
    if (machine !== null) happenTo(context, machine, fault);
  }
}

type Local = Exclude<
  Fault,
  {
    does:
      | 'crash'
      | 'restart'
      | 'weather'
      | 'step'
      | 'step-at-rest'
      | 'writes'
      | 'backup'
      | 'restore'
      | 'uproot'
      | 'overfill';
  }
>;

function happenTo(context: Context, machine: Machine, fault: Local): void {
  const { later, deployment } = context;
  const { host, world, disk, link } = machine;
  if (fault.does === 'cut') {
    for (const way of fault.ways) link.cut[way] = true;
    later(fault.for_ms, () => {
      for (const way of fault.ways) link.cut[way] = false;
    });
  } else if (fault.does === 'suspend') {
    host.suspend();
    later(fault.for_ms, () => host.resume());
  } else if (fault.does === 'reboot') {
    powerCycle(machine, fault.forgets, fault.down_ms);
  } else if (fault.does === 'journal') {
    disk.failing = fault.count;
  } else if (fault.does === 'driver') {
    world.fault[fault.what] = true;
    // An agent that begins meanwhile has to find out what is there.
    if (fault.restarts) machine.agent?.life.kill('while its driver fails');
    later(fault.for_ms, () => {
      world.fault[fault.what] = false;
    });
  } else if (fault.does === 'old-journal') {
    oldJournal(deployment, machine, fault.down_ms);
  } else if (fault.does === 'offer') {
    machine.offered = { ...machine.offered, memory_bytes: fault.memory_gib * 2 ** 30 };
  } else if (fault.does === 'share') {
    deployment.operator.share(machine.id, fault.tenant, fault.sharing);
  } else if (fault.does === 'invite') {
    deployment.operator.invite(machine.id, fault.tenant, fault.is_invited);
  } else if (fault.does === 'limit') {
    const { memory_gib } = fault;
    deployment.operator.limit(machine.id, memory_gib === null ? null : memory_gib * 2 ** 30);
  } else if (fault.does === 'drain') {
    deployment.operator.drain(machine.id, true, fault.stop);
    later(fault.for_ms, () => deployment.operator.drain(machine.id, false, false));
  } else if (fault.does === 'reclaim') {
    deployment.operator.reclaim(machine.id, fault.ask);
    later(fault.for_ms, () => deployment.operator.release(machine.id));
  } else if (fault.does === 'guard') {
    const why = [fault.level === 1 ? ('owner_active' as const) : ('on_battery' as const)];
    machine.guard = { ...guard_calm, level: fault.level, why, grace_ms: fault.grace_ms };
    later(fault.for_ms, () => {
      machine.guard = guard_calm;
    });
  } else if (fault.does === 'blind') {
    blind(context, machine, fault.for_ms);
  } else if (fault.does === 'fence') {
    fence(context, machine, fault);
  } else {
    clone(context, machine, fault.for_ms);
  }
}

function crash({ deployment }: Context, { who, calls, moment, down_ms }: Of<'crash'>): void {
  if (who === 'control plane') {
    deployment.down_ms = down_ms;
    deployment.controlPlane?.life.arm(calls, moment);
    return;
  }
  const machine = deployment.machines[who % deployment.machines.length];
  if (machine === undefined) return;
  machine.down_ms = down_ms;
  machine.agent?.life.arm(calls, moment);
}

/** While no control plane runs, a step cannot be told from time that passed. */
function step(context: Context, who: Who, by_ms: number): void {
  const { deployment } = context;
  hostOf(context, who)?.stepWall(by_ms);
  if (who === 'control plane' && deployment.controlPlane === null) deployment.invariants.forgive();
}

const placing_looks = 500;

/** Looks fifty times a second, for a while, for a run that no machine told of yet. */
function backUpPlacing(context: Context, looks_left: number): void {
  const { story, deployment } = context;
  const unproven = deployment.database.watch.get(
    'select workload_id from runs where ended_at is null and proven_at is null',
  );
  if (unproven !== undefined) backUp(story, deployment);
  else if (looks_left > 0) context.later(20, () => backUpPlacing(context, looks_left - 1));
}

/** Asked to end, as an upgrade does it. */
function restart(context: Context, who: Who, down_ms: number): void {
  const { deployment } = context;
  const machine = who === 'control plane' ? null : machineOf(context, who);
  const there = machine === null ? deployment.controlPlane : machine.agent;
  if (there === null) return;
  if (machine === null) deployment.down_ms = down_ms;
  else machine.down_ms = down_ms;
  const stopping = 'agent' in there ? there.agent.stop() : there.stop();
  stopping.then(() => there.life.kill('stopped'));
}

function weather({ deployment, later }: Context, fault: Of<'weather'>): void {
  const { machines, user_link } = deployment;
  const one = fault.machine === 'all' ? null : machines[fault.machine % machines.length];
  const links: Link[] =
    one === null ? [...machines.map(({ link }) => link), user_link] : one ? [one.link] : [];
  for (const link of links) link.weather = fault.weather;
  later(fault.for_ms, () => {
    for (const link of links) link.weather = fair;
  });
}

function powerCycle(machine: Machine, forgets: boolean, down_ms: number): void {
  const { host, world } = machine;
  host.resume();
  machine.down_ms = down_ms;
  machine.agent?.life.kill('power off');
  world.powerOff(forgets);
  host.reboot();
}

function fence(context: Context, machine: Machine, fault: Of<'fence'>): void {
  const { deployment, later } = context;
  const { agent_epoch = 0 } =
    deployment.database.watch.get<{ agent_epoch: number }>(
      'select agent_epoch from machines where id = ?1',
      machine.id,
    ) ?? {};
  powerCycle(machine, false, fault.down_ms);
  later(fault.word_ms, () => deployment.operator.fence(machine.id, agent_epoch));
}

/** Its driver is gone and comes back; an agent finds out when it starts. */
function blind({ later }: Context, machine: Machine, for_ms: number): void {
  machine.is_blind = true;
  machine.down_ms = 1000;
  machine.agent?.life.kill('its driver is gone');
  later(for_ms, () => {
    machine.is_blind = false;
    machine.agent?.life.kill('its driver is back');
  });
}

function restoreStore({ story, deployment }: Context, fault: Of<'restore'>): void {
  if (deployment.restored === 'journal') return;
  deployment.restored = 'store';
  restore(story, deployment, fault);
}

/** The disk as it was at the last backup, but for whom the machine obeys. */
function oldJournal(deployment: Deployment, machine: Machine, down_ms: number): void {
  if (deployment.restored === 'store') return;
  deployment.restored = 'journal';
  const { disk, snapshot } = machine;
  machine.down_ms = down_ms;
  machine.agent?.life.kill('its disk is restored');
  for (const name of [...disk.files.keys()]) {
    if (name !== 'identity') disk.files.delete(name);
  }
  for (const [name, text] of snapshot) if (name !== 'identity') disk.files.set(name, text);
}

/** A copy of the data folder on another computer, while the machine's own agent is well. */
function clone(context: Context, machine: Machine, for_ms: number): void {
  const { story, deployment, clones, later } = context;
  // Where nothing was heard of it for a lease, a double is what a reboot would be.
  const silence_ms = deployment.controlPlane?.silence_ms(machine.id) ?? Number.POSITIVE_INFINITY;
  if (silence_ms > story.hold_ms + 2000 || machine.agent === null || machine.host.isSuspended())
    return;
  const made = startClone(story, deployment, machine, clones.length);
  clones.push(made);
  later(for_ms, made.end);
}

function heal(context: Context): void {
  const { deployment, clones } = context;
  context.is_over = true;
  for (const one of clones) one.end();
  deployment.heal();
}

function machineOf({ deployment }: Context, nth: number): Machine | null {
  return deployment.machines[nth % deployment.machines.length] ?? null;
}

function hostOf(context: Context, who: Who) {
  return who === 'control plane' ? context.deployment.host : machineOf(context, who)?.host;
}
