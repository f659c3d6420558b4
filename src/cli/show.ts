/**
 * `einsora show`: all that is known about one workload.
 */
import type { Workload } from '../contract/workloads.ts';
import { formatAgo, formatBytes, formatDuration, formatMemory } from '../core/format.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import { idleText, keysText, variablesText } from './extras-view.ts';
import { asPlaced, classText, fallbackText, roomText, takenText } from './fallback-view.ts';
import { gpusAsked, gpusHeld } from './gpu-view.ts';
import type { Context } from './io.ts';
import { pairLines, printData, printJson } from './output.ts';
import { reclaimNote } from './reclaim-view.ts';
import { replicaLines, replicasText } from './replica-view.ts';
import { stageText } from './stage-view.ts';
import { countdownText, lastUseText, useLine } from './use-view.ts';
import { onWorkload, stateText, whereText } from './workload-name.ts';

export type ShowOptions = { json?: boolean };

export async function show(context: Context, name: string, options: ShowOptions): Promise<number> {
  const client = openClient(context);
  const workload = await onWorkload(client, name, () => client.show(name));
  if (options.json) {
    printJson(context, workload);
  } else {
    for (const line of showLines(workload, context.io.clock.now())) printData(context, line);
  }
  return exitCode('ok');
}

function showLines(asked: Workload, now: number): string[] {
  const workload = asPlaced(asked);
  const { reason, model_params } = workload;
  const lines = pairLines([
    ['name', workload.name],
    ['id', workload.id],
    ['kind', workload.kind],
    ['state', `${stateText(workload, now)}, for ${formatDuration(now - workload.state_since)}`],
    ['reason', reason?.message ?? null],
    ['fix', reason?.fix ?? null],
    ['notice', reclaimNote(workload)],
    ['held back', workload.held_back ?? null],
    ['url', workload.url],
    ['image', workload.image_id],
    ['command', workload.command.join(' ') || null],
    ['model', workload.model],
    ['context', textOrNull(model_params.context_length)],
    ['parallel', textOrNull(model_params.parallel)],
    ['class', classText(workload)],
    ['asked for', workload.machine === null ? null : `machine ${workload.machine}`],
    ['stands in', takenText(workload)],
    ['fallback', fallbackText(workload)],
    ['make room', roomText(workload.make_room)],
    ['accelerator', workload.accelerator],
    ['gpus', gpusHeld(workload) ?? gpusAsked(workload)],
    ['size', sizeText(workload)],
    ['variables', variablesText(workload.env)],
    ['ssh key', keysText(workload.ssh_public_key)],
    ['uses', useLine(workload)],
    ['last use', workload.use === null ? null : lastUseText(workload.use, now)],
    ['idle stop', idleStopText(workload)],
    ['region', regionText(workload)],
    ['home', homeText(workload)],
    ['where', whereText(workload)],
    ['replicas', replicasText(workload)],
    ['run', textOrNull(workload.placement?.run_epoch)],
    ['tier', workload.placement?.isolation_tier ?? null],
    ['host sees', workload.host_sees],
    ['restarts', workload.restarts === 0 ? null : String(workload.restarts)],
    ['created', `${formatAgo(now - workload.created_at)} by ${workload.created_by}`],
  ]);
  const stages = workload.stages.map((stage) => `  ${stageText(stage)}`);
  const told = stages.length === 0 ? lines : [...lines, 'stages', ...stages];
  const replicas = replicaLines(workload);
  return replicas.length === 0 ? told : [...told, 'each replica', ...replicas];
}

/** `after 2h 0m of nothing, in 1h 52m`. */
function idleStopText(workload: Workload): string | null {
  const rule = idleText(workload.idle_policy);
  const countdown = countdownText(workload);
  return rule === null || countdown === null ? rule : `${rule}: ${countdown}`;
}

/** What stays there is said where it is not simply this computer. */
function regionText({ region }: Workload): string {
  if (region === 'local') return region;
  return `${region}: what it keeps stays there, what you look at passes through the control plane`;
}

/** The machine that keeps its disk. */
function homeText({ home }: Workload): string | null {
  if (home === null) return null;
  return home.machine_name ?? 'a machine that is not here any more';
}

function sizeText(workload: Workload): string {
  const { cpu_millis, memory_bytes, disk_bytes } = workload;
  const disk = disk_bytes === 0 ? '' : `, ${formatBytes(disk_bytes)} of disk`;
  return `${cpu_millis / 1000} CPU, ${formatMemory(memory_bytes)} of memory${disk}`;
}

function textOrNull(value: number | undefined): string | null {
  return value === undefined ? null : String(value);
}
