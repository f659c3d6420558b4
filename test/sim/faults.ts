/**
 * What goes wrong in a story, and how everything is made well again.
 */
import type { Deployment } from './deployment.ts';
import { fair, type Link } from './link.ts';
import type { Machine } from './machine.ts';
import type { Fault, Who } from './schedule.ts';
import type { Story } from './story.ts';

export type Faults = {
  happen(fault: Fault): void;
  /** Ends every fault, and lets none begin. */
  heal(): void;
};

export function createFaults(story: Story, deployment: Deployment): Faults {
  const { time } = story;
  let is_over = false;
  const machineOf = (nth: number): Machine | null =>
    deployment.machines[nth % deployment.machines.length] ?? null;
  const later = (ms: number, work: () => void) =>
    time.at(time.now() + ms, () => {
      if (!is_over) work();
    });

  function crash(who: Who, calls: number, moment: 'before' | 'after', down_ms: number): void {
    deployment.down_ms = down_ms;
    if (who === 'control plane') deployment.controlPlane?.life.arm(calls, moment);
    else machineOf(who)?.agent?.life.arm(calls, moment);
  }

  function weather(links: readonly Link[], fault: Extract<Fault, { does: 'weather' }>): void {
    for (const link of links) link.weather = fault.weather;
    later(fault.for_ms, () => {
      for (const link of links) link.weather = fair;
    });
  }

  function happen(fault: Fault): void {
    if (is_over) return;
    if (fault.does === 'crash') {
      crash(fault.who, fault.calls, fault.moment, fault.down_ms);
    } else if (fault.does === 'weather') {
      const which = fault.machine === 'all' ? deployment.machines : [machineOf(fault.machine)];
      const links = which.flatMap((machine) => (machine === null ? [] : [machine.link]));
      weather(fault.machine === 'all' ? [...links, deployment.user_link] : links, fault);
    }
  }

  return {
    happen,
    heal() {
      is_over = true;
      deployment.down_ms = 1000;
      deployment.database.heal();
      deployment.user_link.weather = fair;
      for (const { link, host, world, disk } of deployment.machines) {
        link.weather = fair;
        link.cut = { up: false, down: false };
        Object.assign(world.fault, { observe: false, start: false, stop: false });
        disk.failing = 0;
        world.calm();
        host.resume();
      }
    },
  };
}
