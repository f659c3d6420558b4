/**
 * `einsora machines`: the machines, what they offer, what is free, and what cannot run there and
 * why.
 */
import type { GpuRecord } from '../contract/gpus.ts';
import type { Machine } from '../contract/machines.ts';
import { formatAgo, formatBytes, formatMemory } from '../core/format.ts';
import { suggested } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import { guardMark } from './guard-view.ts';
import type { Context } from './io.ts';
import { oneLine, printJson, printTable, say } from './output.ts';
import { reclaimMark } from './reclaim-view.ts';

export type MachinesOptions = { json?: boolean };

const headings = [
  ...['NAME', 'STATE', 'OWNER', 'SHARED', 'SYSTEM', 'CPU FREE', 'MEMORY FREE', 'DISK FREE', 'GPU'],
  'RUNS',
];

export async function machines(context: Context, options: MachinesOptions): Promise<number> {
  const items = await openClient(context).machines();
  if (options.json) {
    printJson(context, { items });
    return exitCode('ok');
  }
  if (items.length === 0) {
    const show = suggested(context.config, 'catalog');
    say(context, `No machine is yours or shared with you yet. What could be asked for: ${show}`);
    return exitCode('ok');
  }
  const now = context.io.clock.now();
  printTable(
    context,
    headings,
    items.map((machine) => row(machine, now)),
  );
  for (const line of items.flatMap(refusals)) say(context, line);
  return exitCode('ok');
}

function row(machine: Machine, now: number): string[] {
  const { inventory, offered, held } = machine;
  const system = inventory === null ? '' : `${inventory.os} ${inventory.arch}`;
  const gpus = inventory?.gpus.filter((gpu) => gpu.mig_of === null).map(shortGpu);
  const free = (part: keyof Machine['offered']) => Math.max(0, offered[part] - held[part]);
  return [
    machine.name,
    onlineText(machine, now),
    machine.owner,
    machine.sharing,
    system,
    `${free('cpu_millis') / 1000} of ${offered.cpu_millis / 1000}`,
    `${formatMemory(free('memory_bytes'))} of ${formatMemory(offered.memory_bytes)}`,
    inventory === null ? '' : formatBytes(inventory.disk_free_bytes),
    gpus === undefined || gpus.length === 0 ? 'none' : gpus.join(', '),
    machine.workloads.length === 0 ? '' : machine.workloads.join(', '),
  ];
}

/** "NVIDIA L4 (22.5 GiB)", and its state where it is not well. */
function shortGpu({ model, memory_bytes, state, mig_mode }: GpuRecord): string {
  const size = memory_bytes > 0 ? formatMemory(memory_bytes) : null;
  const how = mig_mode === 'enabled' ? 'MIG' : state === 'ok' ? null : state.replace('_', ' ');
  const facts = [size, how].filter((one) => one !== null).join(', ');
  return facts === '' ? oneLine(model) : `${oneLine(model)} (${facts})`;
}

export function onlineText(machine: Machine, now: number): string {
  const drained = machine.drained_at === null ? '' : ', draining';
  const mark = `${drained}${guardMark(machine)}${reclaimMark(machine.reclaim, now)}`;
  if (machine.online) return `online${mark}`;
  const seen = machine.last_seen_at;
  const silent = seen === null ? 'never heard of' : `not heard of: ${formatAgo(now - seen)}`;
  return `${silent}${mark}`;
}

/** What cannot run on it, and why: one line for each driver that is not ready. */
function refusals(machine: Machine): string[] {
  return (machine.inventory?.drivers ?? [])
    .filter((driver) => !driver.ready)
    .map(({ driver, why }) => {
      const because = why === null ? 'not ready' : oneLine(why);
      return `${oneLine(machine.name)}: ${oneLine(driver)} cannot run: ${because}`;
    });
}
