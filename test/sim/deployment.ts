/**
 * One deployment: a control plane, its database, its machines and its users, put together and
 * brought back when a part of it died.
 */

import { makeId } from '../../src/core/ids.ts';
import type { RunKey } from '../../src/core/run.ts';
import type { DriverName } from '../../src/core/trust.ts';
import { gib } from './amounts.ts';
import { type Client, createClient, type Tenant } from './client.ts';
import { type ControlPlane, startControlPlane } from './control-plane.ts';
import { type Database, openDatabase } from './database.ts';
import { createHost, type Host } from './host.ts';
import { createInvariants, type Invariants } from './invariants.ts';
import { createLink, type Link } from './link.ts';
import { type Machine, startAgent } from './machine.ts';
import { createMachineWorld } from './machine-world.ts';
import { planOfRun } from './run-plan.ts';
import type { Story } from './story.ts';
import { createTruths, type Truths } from './truths.ts';

export type Deployment = {
  readonly host: Host;
  database: Database;
  controlPlane: ControlPlane | null;
  readonly machines: Machine[];
  readonly tenants: Tenant[];
  readonly client: Client;
  readonly user_link: Link;
  readonly invariants: Invariants;
  readonly truths: Truths;
  /** Whether parts that die come back by themselves; null: at once. */
  down_ms: number;
  bringUpControlPlane(): void;
  bringUpAgent(machine: Machine): void;
  /** After each event: what was touched is checked. False ends the story. */
  look(): boolean;
  lookAtAll(): void;
  close(): void;
};

const slugs = ['ada', 'bob', 'cyd'];
const full_look_every = 5000;

export async function createDeployment(story: Story, count: number): Promise<Deployment> {
  const host = createHost(story.time, 'cp');
  const database = openDatabase();
  const tenants = setUp(database, host.now());
  const truths = createTruths(story, () => deployment);
  const machines = Array.from({ length: count }, (_, index) =>
    createMachine(story, database, tenants, truths, index),
  );
  const user_link = createLink(story.time, story.chance('user link'));
  const client = createClient({
    ...{ story, link: user_link, tenants, controlPlane: () => deployment.controlPlane },
  });
  const invariants = createInvariants(story, database.watch, truths);
  let events = 0;
  const deployment: Deployment = {
    ...{ host, database, machines, tenants, client, user_link, invariants, truths },
    controlPlane: null,
    down_ms: 1000,
    bringUpControlPlane() {
      deployment.controlPlane ??= startControlPlane(story, host, deployment.database, (why) => {
        story.tell('cp', `died ${why}`);
        deployment.controlPlane = null;
        story.time.at(story.time.now() + deployment.down_ms, deployment.bringUpControlPlane);
      });
    },
    bringUpAgent: (machine) => bringUpAgent(story, deployment, machine),
    look() {
      events += 1;
      if (deployment.database.wasWritten()) invariants.check(deployment.database.watch.take());
      if (events % full_look_every === 0) invariants.checkAll();
      return story.violation() === null;
    },
    lookAtAll: () => invariants.checkAll(),
    close() {
      deployment.controlPlane?.life.kill('the end');
      for (const machine of machines) machine.agent?.life.kill('the end');
      deployment.database.close();
    },
  };
  deployment.bringUpControlPlane();
  for (const machine of machines) deployment.bringUpAgent(machine);
  return deployment;
}

function bringUpAgent(story: Story, deployment: Deployment, machine: Machine): void {
  if (machine.agent !== null) return;
  const place = {
    ...machine,
    offered: () => machine.offered,
    controlPlane: () => deployment.controlPlane,
  };
  machine.agent = startAgent(story, place, (why) => {
    story.tell(machine.host.name, `agent died ${why}`);
    machine.agent = null;
    machine.host.after(deployment.down_ms, () => deployment.bringUpAgent(machine));
  });
}

/** Three tenants with a user each, as sign-ups and invitations would leave them. */
function setUp({ watch }: Database, now: number): Tenant[] {
  watch.exec(`insert into meta (key, value) values ('store_uuid', 'simulated'),
    ('store_epoch', '1')`);
  return slugs.map((name, index) => {
    const [tenant_id, user_id] = [idOf(100 + index), idOf(200 + index)];
    watch.exec(`insert into tenants (id, slug, name, created_at)
      values ('${tenant_id}', '${name}', '${name}', ${now})`);
    watch.exec(`insert into users (id, tenant_id, name, role, created_at)
      values ('${user_id}', '${tenant_id}', '${name}', 'operator', ${now})`);
    return { tenant_id, user_id, name };
  });
}

/** Half of them are for their owners alone, half are everybody's. */
function createMachine(
  story: Story,
  { watch }: Database,
  tenants: readonly Tenant[],
  truths: Truths,
  index: number,
): Machine {
  const host = createHost(story.time, `m${index}`);
  const id = idOf(300 + index);
  const owner = tenants[index % tenants.length] ?? tenants[0];
  const driver: DriverName = index % 2 === 0 ? 'sim' : 'libvirt';
  const sharing = index % 2 === 0 ? 'private' : 'community';
  watch.exec(`insert into machines (id, tenant_id, name, region, sharing, agent_epoch, generation,
      cpu_millis, memory_bytes, disk_bytes, created_at)
    values ('${id}', '${owner?.tenant_id}', 'm${index}', 'local', '${sharing}', 0, 0, 0, 0, 0,
      ${host.now()})`);
  const planOf = (run: RunKey) => planOfRun(story.seed, run);
  const world = createMachineWorld({ host, driver, planOf, events: truths.eventsOf(id) });
  return {
    ...{ id, host, world, driver },
    disk: { files: new Map(), failing: 0 },
    link: createLink(story.time, story.chance(`link ${index}`)),
    chance: story.chance(`agent ${index}`),
    offered: { cpu_millis: 8000, memory_bytes: 16 * gib },
    agent: null,
  };
}

function idOf(number: number): string {
  return makeId(number, new Uint8Array(10));
}
