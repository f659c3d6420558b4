/**
 * A plan as lines: what was asked with its defaults, what was chosen, what was not and why, and
 * what the host can see.
 */
import type { Plan } from '../contract/workloads.ts';
import { formatBytes, formatMemory } from '../core/format.ts';
import { idleText, keysText, variablesText } from './extras-view.ts';
import { fallbackHeading, fallbackRows, fallbackText, roomText } from './fallback-view.ts';
import { gpusAsked, gpusChosen } from './gpu-view.ts';
import { alignColumns, oneLine } from './output.ts';

/** The whole plan. Pure: the caller prints it. */
export function planLines(plan: Plan): string[] {
  return [
    ...askedLines(plan),
    ...overLines(plan),
    ...chosenLines(plan),
    ...fallbackLines(plan),
    ...roomLines(plan),
    ...downloadLines(plan),
    ...machineLines(plan),
    ...classLines(plan),
    ...queueLines(plan),
  ];
}

function askedLines(plan: Plan): string[] {
  const { asked } = plan;
  const { context_length, parallel } = asked.model_params;
  const rows: [string, string, string | null][] = [
    ['name', 'name', asked.name],
    ['image', 'image_id', asked.image_id],
    ['command', 'command', asked.command.join(' ') || null],
    ['model', 'model', asked.model],
    ['context', 'model_params.context_length', numberOrNull(context_length)],
    ['parallel', 'model_params.parallel', numberOrNull(parallel)],
    ['replicas', 'replicas', asked.replicas === 1 ? null : String(asked.replicas)],
    ['accelerator', 'accelerator', asked.accelerator ?? 'any'],
    ['class', 'gpu_class', asked.gpu_class ?? 'the smallest that fits'],
    ['gpus', 'gpu_count', gpusAsked(asked)],
    ['region', 'region', asked.region],
    ['cpu', 'cpu_millis', `${asked.cpu_millis / 1000}`],
    ['memory', 'memory_bytes', formatMemory(asked.memory_bytes)],
    ['disk', 'disk_bytes', asked.disk_bytes === 0 ? null : formatBytes(asked.disk_bytes)],
    ['variables', 'env', variablesText(asked.env)],
    ['ssh key', 'ssh_public_key', keysText(asked.ssh_public_key)],
    ['idle stop', 'idle_policy', idleText(asked.idle_policy)],
    ['machine', 'machine', asked.machine],
    ['fallback', 'fallback', fallbackText(asked)],
  ];
  const shown = rows.flatMap(([label, field, value]) =>
    value === null
      ? []
      : [[label, `${oneLine(value)}${isDefault(plan, field) ? ' (default)' : ''}`]],
  );
  return [`Asked: one ${asked.kind}`, ...indent(alignColumns(shown))];
}

/** That a launch would be refused, whatever is free. */
function overLines({ refused }: Plan): string[] {
  if (refused === null || refused === undefined) return [];
  const fix = refused.fix === null ? [] : [['fix', oneLine(refused.fix)]];
  return ['Refused:', ...indent(alignColumns([['why', oneLine(refused.message)], ...fix]))];
}

function chosenLines(plan: Plan): string[] {
  const { chosen, reason, host_sees } = plan;
  if (chosen === null) {
    if (plan.refused) return [];
    const why = reason === null ? 'it is not said why' : oneLine(reason.message);
    const fix = reason?.fix ? [['fix', oneLine(reason.fix)]] : [];
    return [
      'Chosen: nothing yet, so it will wait',
      ...indent(alignColumns([['why', why], ...fix])),
    ];
  }
  const gpus = gpusChosen(plan);
  const rows = [
    ['machine', oneLine(chosen.machine_name)],
    ['class', oneLine(chosen.placed_class)],
    ...(gpus === null ? [] : [['gpus', gpus]]),
    ['driver', oneLine(chosen.driver)],
    ['isolation', chosen.isolation],
    ['tier', chosen.isolation_tier],
    ['host sees', oneLine(host_sees ?? 'not known')],
  ];
  return [plan.refused ? 'Would be chosen:' : 'Chosen:', ...indent(alignColumns(rows))];
}

/** Where it would go instead, once it waited. */
function fallbackLines(plan: Plan): string[] {
  const rows = fallbackRows(plan);
  return rows.length === 0 ? [] : [fallbackHeading(plan), ...indent(alignColumns(rows))];
}

/** Whose room could be made. */
function roomLines({ make_room }: Plan): string[] {
  const names = roomText(make_room);
  return names === null ? [] : [`With --make-room it would have stopped: ${names}`];
}

/** How much comes, and whether there is room for it. */
function downloadLines({ download, chosen }: Plan): string[] {
  if (download === null) return [];
  const { bytes, file_count, free_bytes, is_here } = download;
  if (is_here) return ['To fetch: nothing, the machine has it'];
  const files = file_count === 1 ? '' : ` in ${file_count} files`;
  const where = chosen === null ? 'the machine' : oneLine(chosen.machine_name);
  const free = free_bytes === null ? '' : `; ${formatBytes(free_bytes)} free on ${where}`;
  const full = free_bytes !== null && bytes > free_bytes ? ' (not enough)' : '';
  return [`To fetch: ${formatBytes(bytes)}${files}${free}${full}`];
}

/** Every machine, by which driver it would run there, and why not. */
function machineLines({ candidates }: Plan): string[] {
  if (candidates.length === 0) return [];
  const rows = candidates.map(({ machine_name, driver, isolation, answer, reason }) => {
    const name = oneLine(machine_name);
    const fix = reason?.fix ? ` (${oneLine(reason.fix)})` : '';
    const why = reason === null ? '' : withoutName(oneLine(reason.message), name) + fix;
    const by = driver === null ? '-' : `${driver}${isolation === null ? '' : `, ${isolation}`}`;
    return [name, by, answer === 'no' ? why : answers[answer]];
  });
  return ['Machines:', ...indent(alignColumns([['MACHINE', 'BY', 'ANSWER'], ...rows]))];
}

const answers = { chosen: 'chosen', fits: 'would do too, and leaves more unused' } as const;

function classLines({ classes_not_chosen }: Plan): string[] {
  if (classes_not_chosen.length === 0) return [];
  const rows = classes_not_chosen.map(({ gpu_class, why }) => [oneLine(gpu_class), oneLine(why)]);
  return ['Other classes:', ...indent(alignColumns(rows))];
}

/** Whose turn comes before. What has its place at once stands in no queue. */
function queueLines({ queue, chosen, refused }: Plan): string[] {
  if (refused || (chosen !== null && queue.place === 1)) return [];
  if (queue.place === 1) return ['Queue: it would be next'];
  const { own, own_more, others } = queue;
  const before = [
    ...own.map(oneLine),
    ...(own_more > 0 ? [`${own_more} more of yours`] : []),
    ...(others > 0 ? [`${others} of others`] : []),
  ];
  return [`Queue: place ${queue.place}, after ${before.join(', ')}`];
}

/** The line begins with the machine's name already. */
function withoutName(message: string, name: string): string {
  return message.startsWith(`${name}: `) ? message.slice(name.length + 2) : message;
}

function isDefault(plan: Plan, field: string): boolean {
  return plan.defaults.includes(field) || plan.defaults.includes(field.split('.').at(-1) ?? field);
}

function numberOrNull(value: number | undefined): string | null {
  return value === undefined ? null : String(value);
}

function indent(lines: string[]): string[] {
  return lines.map((line) => `  ${line}`);
}
