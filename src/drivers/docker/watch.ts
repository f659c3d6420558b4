/**
 * The engine's containers of this install, as they are now.
 *
 * Invariants: one question to the engine for a look, and one more for each container that is new or
 * changed; a container shown as running is looked for among the processes each time; kills for lack
 * of memory are counted while they can be seen, because the counter goes with the container.
 */

import { runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import {
  type Container,
  inspectContainer,
  type ListedContainer,
  listContainers,
  type RunLabels,
  readLabels,
} from './container.ts';
import type { Engine } from './engine.ts';
import { type Judgement, judge } from './judge.ts';
import { containerPids, isOfContainer, oomKillsOf, seesProcesses } from './processes.ts';

export type Watched = { container: Container; labels: RunLabels; judgement: Judgement };

export type Watch = {
  /** Every container of this install. */
  all(): Promise<Watched[]>;
  /** What this container is now; null where it is not there or none of ours. */
  one(id: string): Promise<Watched | null>;
  /** Why runs are in doubt, for people. */
  troubles(): string[];
  trouble(run_name: string, why: string): void;
};

type Known = {
  container: Container;
  /** The last process it was seen with. */
  pid: number;
  oom_kills: number;
  /** Settled ends change no more. */
  ended: Judgement | null;
};

type Looking = {
  engine: Engine;
  clock: Clock;
  known: Map<string, Known>;
  /**
   * Whether any container's process was ever found here. Before that one which is not found may as
   * well be in another pid namespace: ours, where this program is in a container itself.
   */
  has_found: boolean;
};

const killed_code = 137;

export function createWatch(deps: { engine: Engine; install_id: string; clock: Clock }): Watch {
  const { engine, install_id, clock } = deps;
  const known = new Map<string, Known>();
  const looking: Looking = { engine, clock, known, has_found: false };
  const troubles = new Map<string, string>();

  async function watched(
    listed: ListedContainer,
    fresh: Container | null,
  ): Promise<Watched | null> {
    const labels = readLabels(listed.labels, install_id);
    if (labels === null) return null;
    const judgement = await look(looking, listed.id, listed.state, fresh);
    const container = known.get(listed.id)?.container;
    if (judgement === null || container === undefined) return null;
    note(labels, judgement);
    return { container, labels, judgement };
  }

  function note(labels: RunLabels, judgement: Judgement): void {
    const name = runName(labels.run);
    if (judgement.state === 'unknown') troubles.set(name, judgement.why);
    else troubles.delete(name);
  }

  return {
    async all() {
      const listed = await listContainers(engine, install_id);
      const ids = new Set(listed.map(({ id }) => id));
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
      const found = await Promise.all(listed.map((entry) => watched(entry, null)));
      const here = found.filter((one) => one !== null);
      const names = new Set(here.map(({ labels }) => runName(labels.run)));
      for (const name of troubles.keys()) if (!names.has(name)) troubles.delete(name);
      return here;
    },
    async one(id) {
      const container = await inspectContainer(engine, id);
      if (container === null) return null;
      return watched({ ...container, state: container.status }, container);
    },
    troubles: () => [...troubles].map(([name, why]) => `${name}: ${why}`),
    trouble: (run_name, why) => void troubles.set(run_name, why),
  };
}

/** `fresh`: what the engine has just said of it; without that it is asked where need be. */
async function look(
  looking: Looking,
  id: string,
  listed_state: string,
  fresh: Container | null,
): Promise<Judgement | null> {
  const { engine, clock, known } = looking;
  const local = seesProcesses(await engine.version());
  const before = known.get(id);
  if (before !== undefined && before.ended !== null && listed_state === 'exited') {
    return before.ended;
  }
  const is_same =
    before !== undefined &&
    before.container.status === listed_state &&
    listed_state === 'running' &&
    local &&
    isOfContainer(before.pid, id);
  const container = fresh ?? (is_same ? before.container : await inspectContainer(engine, id));
  if (container === null) {
    known.delete(id);
    return null;
  }
  const pid = container.pid > 0 ? container.pid : (before?.pid ?? 0);
  const seen = local && pid > 0 ? (oomKillsOf(pid, id) ?? 0) : 0;
  const entry: Known = {
    container,
    pid,
    oom_kills: Math.max(seen, before?.oom_kills ?? 0),
    ended: null,
  };
  known.set(id, entry);
  const found = local ? hasProcess(container, pid) : null;
  looking.has_found ||= found === true;
  const is_alive = found === false && !looking.has_found ? null : found;
  if (container.exit_code === killed_code && entry.oom_kills === 0 && !container.is_oom_killed) {
    entry.oom_kills = await toldKills(engine, container, clock);
  }
  const judgement = judge(container, { is_alive, oom_kills: entry.oom_kills });
  if (judgement.state === 'exited') entry.ended = judgement;
  return judgement;
}

/**
 * After trouble with the engine a container may be shown as ended while its processes go on, so of
 * one that has ended all are looked for.
 */
function hasProcess({ id, status }: Container, pid: number): boolean | null {
  if (status === 'running' || status === 'paused') return pid > 0 ? isOfContainer(pid, id) : null;
  return status === 'created' ? null : containerPids(id).length > 0;
}

/** Kills for lack of memory that the engine still remembers. None where it cannot say. */
async function toldKills(engine: Engine, container: Container, clock: Clock): Promise<number> {
  const until = Math.ceil(clock.now() / 1000);
  const since = Math.floor((container.started_at ?? 0) / 1000);
  const filters = JSON.stringify({ container: [container.id], event: ['oom'] });
  try {
    const query = { since, until, filters };
    const answer = await engine.open({ method: 'GET', path: '/events', query });
    let text = '';
    for await (const chunk of answer.setEncoding('utf8')) {
      text = (text + chunk).slice(-4096);
    }
    return (text.match(/"oom"/g) ?? []).length;
  } catch {
    return 0;
  }
}
