/**
 * Plays one story from its schedule: builds the deployment, lets virtual time pass, and looks at
 * every invariant after every event.
 *
 * Invariants: the same options give the same trace, whatever ran before in this process; the first
 * violation ends the story.
 */
import { createDeployment } from './deployment.ts';
import { createFaults } from './faults.ts';
import { Died } from './life.ts';
import { checkConverged } from './liveness.ts';
import { type Item, isFault, scheduleOf } from './schedule.ts';
import { createStory, type Story, type Violation } from './story.ts';
import { settled } from './virtual-time.ts';

export type Mode = 'safety' | 'liveness';

export type PlayOptions = {
  seed: number;
  hours: number;
  machines: number;
  mode: Mode;
  /** Numbers of the items of the schedule that happen; null for all of them. */
  keep: readonly number[] | null;
  /** Reads along. */
  read: ((line: string) => void) | null;
};

export type Played = {
  options: PlayOptions;
  violation: Violation | null;
  hash: string;
  /** How many items the whole schedule has. */
  items: number;
  virtual_ms: number;
  events: number;
};

const lease_ms = 60_000;
/** How long everything may take to come right once nothing is wrong any more. */
export const heal_ms = 3 * lease_ms + 60_000;

export async function play(options: PlayOptions): Promise<Played> {
  const { seed, hours, machines, mode, keep } = options;
  const story = createStory(seed, options.read);
  const deployment = createDeployment(story, machines);
  const faults = createFaults(story, deployment);
  const schedule = scheduleOf({ seed, hours, machines });
  const kept = keep === null ? null : new Set(keep);
  schedule.forEach((item, number) => {
    if (kept !== null && !kept.has(number)) return;
    story.time.at(item.at, () => happen(item, number));
  });

  function happen(item: Item, number: number): void {
    const { at: _, does, ...rest } = item;
    story.tell('schedule', `#${number} ${does} ${JSON.stringify(rest)}`);
    if (isFault(item)) faults.happen(item as never);
    else deployment.client.act(item as never, number);
  }

  const until = hours * 3_600_000;
  await catching(story, async () => {
    await story.time.run(until, deployment.look);
    if (mode === 'liveness' && story.violation() === null) {
      faults.heal();
      await story.time.run(until + heal_ms, deployment.look);
      if (story.violation() === null) checkConverged(story, deployment);
    }
    if (story.violation() === null) deployment.lookAtAll();
    deployment.close();
    await settled(); // what the dead leave behind is told to nobody else
  });
  return {
    options,
    violation: story.violation(),
    hash: story.hash(),
    items: schedule.length,
    virtual_ms: story.time.now(),
    events: story.time.fired(),
  };
}

/** What nobody catches ends a real process; what the dead leave uncaught ends nothing. */
async function catching(story: Story, work: () => Promise<void>): Promise<void> {
  const uncaught = (error: unknown) => {
    if (error instanceof Died) return;
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    story.violate('uncaught', message);
  };
  process.on('unhandledRejection', uncaught);
  process.on('uncaughtException', uncaught);
  try {
    await work();
  } finally {
    process.off('unhandledRejection', uncaught);
    process.off('uncaughtException', uncaught);
  }
}
