/**
 * One deployment: a control plane, its database, its machines and its users, put together and
 * brought back when a part of it died.
 */

import { createChance } from './chance.ts';
import { type Client, createClient } from './client.ts';
import { type ControlPlane, startControlPlane } from './control-plane.ts';
import { type Database, openDatabase } from './database.ts';
import { createHost, type Host } from './host.ts';
import { createInvariants, type Invariants } from './invariants.ts';
import type { Life } from './life.ts';
import { createLink, fair, type Link } from './link.ts';
import { guard_calm, type Machine, startAgent } from './machine.ts';
import { createOperator, type Operator } from './operator.ts';
import { createOrder, type Order } from './order.ts';
import { createMachines, setUp } from './set-up.ts';
import type { Story } from './story.ts';
import { createTruths, type Truths } from './truths.ts';

export type Deployment = {
  readonly host: Host;
  database: Database;
  /** What serves; null while nothing does. */
  controlPlane: ControlPlane | null;
  /** The process, also while it starts. */
  process: Life | null;
  /** How long it stays down when it dies. */
  down_ms: number;
  /** The one before a restore, where it still runs. */
  zombie: ControlPlane | null;
  /** The store from before the last restore. */
  old: Database | null;
  backup: { copy: Uint8Array; at: number } | null;
  /** Its data folder is being replaced: it does not come up meanwhile. */
  is_restoring: boolean;
  store_epoch: number;
  /**
   * What backups were restored of in this story: never of both, for a store and a journal of one
   * moment agree that a run never began.
   */
  restored: 'nothing' | 'store' | 'journal';
  readonly machines: Machine[];
  readonly client: Client;
  readonly operator: Operator;
  readonly user_link: Link;
  readonly order: Order;
  readonly invariants: Invariants;
  readonly truths: Truths;
  bringUpControlPlane(): void;
  bringUpAgent(machine: Machine): void;
  /** The agent of a machine obeys the store as it is now. */
  hasMet(machine_id: string): boolean;
  /** After each event: what was touched is checked. False ends the story. */
  look(): boolean;
  /** Calls it after each event that wrote, until it returns true. */
  afterWrites(seen: () => boolean): void;
  lookAtAll(): void;
  heal(): void;
  close(): void;
};

const full_look_every = 20_000;

export function createDeployment(story: Story, count: number): Deployment {
  const { time } = story;
  const host = createHost(time, 'cp');
  const database = openDatabase();
  const tenants = setUp(database, host.now());
  const truths = createTruths(story, () => deployment);
  const machines = createMachines(story, database, tenants, truths, count);
  const user_link = createLink(time, story.chance('user link'));
  const there = () => deployment.controlPlane;
  const machineOf = (number: number) => {
    const { id, host: of } = machines[number % machines.length] as Machine;
    return { id, name: of.name };
  };
  const asking = { story, link: user_link, tenants, controlPlane: there, machineOf };
  const client = createClient(asking);
  const operator = createOperator(story, user_link, tenants, there);
  const invariants = createInvariants(story, database.watch, truths);
  const watchers = new Set<() => boolean>();
  const deployment: Deployment = {
    ...{ host, database, machines, client, operator, user_link, invariants, truths },
    order: createOrder(story),
    ...{
      controlPlane: null,
      process: null,
      zombie: null,
      old: null,
      backup: null,
      is_restoring: false,
    },
    ...{ down_ms: 1000, store_epoch: 1, restored: 'nothing' },
    bringUpControlPlane: () => bringUpControlPlane(story, deployment),
    bringUpAgent: (machine) => bringUpAgent(story, deployment, machine),
    hasMet: (machine_id) => hasMet(deployment, machine_id),
    look: createLook(story, () => deployment, watchers),
    afterWrites: (seen) => void watchers.add(seen),
    lookAtAll: () => invariants.checkAll(),
    heal: () => heal(deployment),
    close() {
      deployment.process?.kill('the end');
      deployment.zombie?.life.kill('the end');
      for (const machine of machines) machine.agent?.life.kill('the end');
      deployment.database.close();
    },
  };
  deployment.bringUpControlPlane();
  for (const machine of machines) deployment.bringUpAgent(machine);
  return deployment;
}

function bringUpControlPlane(story: Story, deployment: Deployment): void {
  const { invariants } = deployment;
  if (deployment.process !== null || deployment.is_restoring) return;
  deployment.process = startControlPlane(
    story,
    deployment.host,
    deployment.database,
    (there) => {
      deployment.controlPlane = there;
    },
    (why) => {
      story.tell('cp', `died ${why}`);
      // A step that no look at the clock came after is not told from time that passed.
      if (story.time.now() - deployment.host.steppedAt() < 35_000) invariants.forgive();
      deployment.controlPlane = null;
      deployment.process = null;
      story.time.at(story.time.now() + deployment.down_ms, deployment.bringUpControlPlane);
    },
  );
}

function bringUpAgent(story: Story, deployment: Deployment, machine: Machine): void {
  if (machine.agent !== null) return;
  const stray = createChance(story.seed, `stray ${machine.id}`);
  const place = {
    ...machine,
    order: deployment.order,
    offered: () => machine.offered,
    guarded: () => machine.guard,
    /** While two control planes run, some calls reach the one that should not. */
    controlPlane: () => {
      const { zombie, controlPlane } = deployment;
      return zombie !== null && stray.is(0.5) ? zombie : controlPlane;
    },
  };
  machine.agent = startAgent(story, place, (why) => {
    story.tell(machine.host.name, `agent died ${why}`);
    machine.agent = null;
    machine.host.after(machine.down_ms, () => deployment.bringUpAgent(machine));
  });
}

function hasMet({ machines, store_epoch }: Deployment, machine_id: string): boolean {
  const text = machines.find((one) => one.id === machine_id)?.disk.files.get('identity');
  const identity = text === undefined ? null : (JSON.parse(text) as { store_epoch: number });
  return (identity?.store_epoch ?? 1) >= store_epoch;
}

function createLook(
  story: Story,
  there: () => Deployment,
  watchers: Set<() => boolean>,
): () => boolean {
  let events = 0;
  return () => {
    const { database, invariants } = there();
    events += 1;
    if (database.wasWritten()) {
      invariants.check(database.watch.take());
      for (const seen of watchers) if (seen()) watchers.delete(seen);
    }
    if (events % full_look_every === 0) invariants.checkAll();
    return story.violation() === null;
  };
}

function heal(deployment: Deployment): void {
  const { database, machines, user_link, zombie } = deployment;
  deployment.down_ms = 1000;
  zombie?.life.kill('it was found');
  database.heal();
  for (const link of [user_link, ...machines.map((machine) => machine.link)]) {
    link.weather = fair;
    link.cut = { up: false, down: false };
  }
  for (const machine of machines) {
    const { host, world, disk } = machine;
    Object.assign(world.fault, { observe: false, start: false, stop: false });
    disk.failing = 0;
    if (machine.guard !== null) machine.guard = guard_calm;
    machine.down_ms = 1000;
    if (machine.is_blind) machine.agent?.life.kill('its driver is back');
    machine.is_blind = false;
    world.calm();
    host.resume();
    deployment.bringUpAgent(machine);
  }
  deployment.bringUpControlPlane();
}
