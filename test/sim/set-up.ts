/**
 * What a story begins with: three tenants, and machines of theirs.
 */
import { makeId } from '../../src/core/ids.ts';
import type { RunKey } from '../../src/core/run.ts';
import type { DriverName } from '../../src/core/trust.ts';
import { machine_memory_bytes } from './amounts.ts';
import type { Tenant } from './client.ts';
import type { Database } from './database.ts';
import { createHost } from './host.ts';
import { createLink } from './link.ts';
import type { Machine } from './machine.ts';
import { createMachineWorld } from './machine-world.ts';
import { planOfRun } from './run-plan.ts';
import type { Story } from './story.ts';
import type { Truths } from './truths.ts';

const slugs = ['ada', 'bob', 'cyd'];
/** How many workloads the third may have at once. */
export const quota_workloads = 4;

/** Three tenants with a user each, as sign-ups and invitations would leave them. */
export function setUp({ watch }: Database, now: number): Tenant[] {
  watch.exec(`insert into meta (key, value) values ('store_uuid', 'simulated'),
    ('store_epoch', '1')`);
  return slugs.map((name, index) => {
    const [tenant_id, user_id] = [idOf(100 + index), idOf(200 + index)];
    watch.exec(`insert into tenants (id, slug, name, created_at)
      values ('${tenant_id}', '${name}', '${name}', ${now})`);
    watch.exec(`insert into users (id, tenant_id, name, role, created_at)
      values ('${user_id}', '${tenant_id}', '${name}', 'operator', ${now})`);
    if (index === 2) {
      watch.exec(`insert into quotas (tenant_id, user_id, gpu_class, workloads, changed_at)
        values ('${tenant_id}', '', '', ${quota_workloads}, ${now})`);
    }
    return { tenant_id, user_id, name };
  });
}

export function createMachines(
  story: Story,
  database: Database,
  tenants: readonly Tenant[],
  truths: Truths,
  count: number,
): Machine[] {
  return Array.from({ length: count }, (_, index) => {
    const owner = tenants[index % tenants.length];
    if (owner === undefined) throw new Error('a machine needs an owner');
    return createMachine(story, database, owner, truths, index);
  });
}

/** Half of them are for their owners alone, half are everybody's. */
function createMachine(
  story: Story,
  { watch }: Database,
  owner: Tenant,
  truths: Truths,
  index: number,
): Machine {
  const host = createHost(story.time, `m${index}`);
  const id = idOf(300 + index);
  const driver: DriverName = index % 2 === 0 ? 'sim' : 'macos-container';
  const sharing = index % 2 === 0 ? 'private' : 'community';
  const region = index === 5 || index === 8 ? 'attic' : 'local';
  watch.exec(`insert into machines (id, tenant_id, name, region, sharing, agent_epoch, generation,
      cpu_millis, memory_bytes, disk_bytes, created_at, reconciled_epoch)
    values ('${id}', '${owner.tenant_id}', 'm${index}', '${region}', '${sharing}', 0, 0, 0, 0, 0,
      ${host.now()}, 1)`);
  const planOf = (run: RunKey) => planOfRun(story.seed, run);
  const world = createMachineWorld({ host, driver, planOf, events: truths.eventsOf(id) });
  return {
    ...{ id, host, world, driver },
    disk: { files: new Map(), failing: 0 },
    snapshot: new Map(),
    link: createLink(story.time, story.chance(`link ${index}`)),
    chance: story.chance(`agent ${index}`),
    offered: { cpu_millis: 8000, memory_bytes: machine_memory_bytes },
    ...{ agent: null, guard: null, is_blind: false, down_ms: 1000 },
  };
}

function idOf(number: number): string {
  return makeId(number, new Uint8Array(10));
}
