/**
 * What a container uses, as the engine measures it.
 *
 * Invariants: what cannot be measured is null, never zero; memory is without the file cache that
 * could be given back at once. Its disk is not asked for: the engine would walk all of its files.
 */
import { no_stats, type RunStats } from '../driver.ts';
import type { Container } from './container.ts';
import type { Engine } from './engine.ts';
import { EngineDown, EngineRefusal } from './engine-error.ts';
import { oomKillsOf, seesProcesses } from './processes.ts';

type Answer = {
  cpu_stats?: { cpu_usage?: { total_usage?: number } };
  memory_stats?: { usage?: number; stats?: Record<string, number> };
};

export async function containerStats(engine: Engine, container: Container): Promise<RunStats> {
  const { id, pid } = container;
  try {
    const query = { stream: 0, 'one-shot': 1 };
    const path = `/containers/${id}/stats`;
    const local = seesProcesses(await engine.version());
    const answer = (await engine.json({ method: 'GET', path, query })) as Answer | null;
    return {
      ...no_stats,
      ...readStats(answer ?? {}),
      oom_kills: local ? oomKillsOf(pid, id) : null,
    };
  } catch (error) {
    if (error instanceof EngineDown || error instanceof EngineRefusal) return no_stats;
    throw error;
  }
}

/** Control groups version 1 and 2 give the cache other names. */
export function readStats({ cpu_stats, memory_stats }: Answer) {
  const cpu_ns = cpu_stats?.cpu_usage?.total_usage;
  const used = memory_stats?.usage;
  const { total_inactive_file, inactive_file } = memory_stats?.stats ?? {};
  const cache = total_inactive_file ?? inactive_file ?? 0;
  return {
    cpu_ms: typeof cpu_ns === 'number' ? Math.round(cpu_ns / 1e6) : null,
    memory_bytes: typeof used === 'number' ? Math.max(0, used - cache) : null,
  };
}
