/**
 * What has a disk, asked to start while its home is in the way: it is to wait for it, however much
 * room there is elsewhere (ADR-0055).
 */
import { ask } from './demands.ts';
import type { Deployment } from './deployment.ts';
import type { Machine } from './machine.ts';
import type { Fault } from './schedule.ts';

type Uproot = Extract<Fault, { does: 'uproot' }>;
type Context = {
  deployment: Deployment;
  is_over: boolean;
  later(ms: number, work: () => void): void;
};

/** By then it has stopped, mostly. */
const stopped_ms = 30_000;
/** By then a machine that is cut off then counts as offline. */
const offline_ms = stopped_ms + 90_000;

/** The smallest one without a GPU, as soon as one runs: for it there may be room elsewhere. */
export function uproot(context: Context, fault: Uproot): void {
  const { deployment } = context;
  deployment.afterWrites(() => {
    if (context.is_over) return true;
    const row = deployment.database.watch.get<{ id: string; home: string }>(
      `select id, home_machine_id as home from workloads
       where home_machine_id is not null and state = 'running' and gpu_count = 0
       order by memory_bytes, id limit 1`,
    );
    const home = deployment.machines.find(({ id }) => id === row?.home);
    if (row === undefined || home === undefined) return false;
    beInItsWay(context, row.id, home, fault);
    return true;
  });
}

function beInItsWay(
  { deployment, later }: Context,
  workload_id: string,
  home: Machine,
  { how, for_ms }: Uproot,
): void {
  const { operator } = deployment;
  const start = () => ask(deployment, 'start', workload_id);
  ask(deployment, 'stop', workload_id);
  if (how === 'drain') {
    operator.drain(home.id, true, false);
    later(stopped_ms, start);
    later(for_ms, () => operator.drain(home.id, false, false));
    return;
  }
  const cut = (is_cut: boolean) => {
    home.link.cut = { up: is_cut, down: is_cut };
  };
  later(stopped_ms, () => cut(true));
  later(offline_ms, start);
  later(offline_ms + for_ms, () => cut(false));
}
