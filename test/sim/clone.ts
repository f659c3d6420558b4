/**
 * A double: the data folder of a machine, copied to another computer, and an agent started there.
 */
import type { Deployment } from './deployment.ts';
import { createHost } from './host.ts';
import { createLink } from './link.ts';
import { type Machine, startAgent } from './machine.ts';
import { createMachineWorld } from './machine-world.ts';
import { planOfRun } from './run-plan.ts';
import type { Story } from './story.ts';

export type Clone = { end(): void };

export function startClone(
  story: Story,
  deployment: Deployment,
  machine: Machine,
  number: number,
): Clone {
  const host = createHost(story.time, `${machine.host.name}-double-${number}`);
  const world = createMachineWorld({
    ...{ host, driver: machine.driver, planOf: (run) => planOfRun(story.seed, run) },
    events: deployment.truths.eventsOf(machine.id),
  });
  const place = {
    ...machine,
    ...{ host, world },
    disk: { files: new Map(machine.disk.files), failing: 0 },
    link: createLink(story.time, story.chance(`double ${number}`)),
    chance: story.chance(`double agent ${number}`),
    offered: () => machine.offered,
    order: deployment.order,
    controlPlane: () => deployment.controlPlane,
  };
  const { life } = startAgent(story, place, (why) => story.tell(host.name, `died ${why}`));
  return { end: () => life.kill('the double was found') };
}
