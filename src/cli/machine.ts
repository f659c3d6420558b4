/**
 * `einsora machine show` and `refresh`: one machine, each of its GPUs, what cannot run and why.
 */
import type { GpuRecord } from '../contract/gpus.ts';
import type { Machine } from '../contract/machines.ts';
import { formatBytes, formatMemory } from '../core/format.ts';
import { gpuClassName } from '../core/gpus.ts';
import { CliError, suggested } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import { guardText } from './guard-view.ts';
import type { Context } from './io.ts';
import { capsText, sharedText, standingLines } from './machine-standing.ts';
import { onlineText } from './machines.ts';
import { oneLine, pairLines, printData, printJson, type Tint, tint } from './output.ts';
import { reclaimText } from './reclaim-view.ts';
import { nearNames } from './suggest.ts';

export type MachineOptions = { json?: boolean };

export async function showMachine(
  context: Context,
  name: string | undefined,
  options: MachineOptions,
): Promise<number> {
  const machines = await openClient(context).machines();
  print(context, pick(context, machines, name), options);
  return exitCode('ok');
}

export async function refreshMachine(
  context: Context,
  name: string | undefined,
  options: MachineOptions,
): Promise<number> {
  const client = openClient(context);
  const { id } = pick(context, await client.machines(), name);
  print(context, await client.refreshMachine(id), options);
  return exitCode('ok');
}

/** The machine that is meant: the only one where none is named. */
export function pick(context: Context, machines: Machine[], name: string | undefined): Machine {
  const list = suggested(context.config, 'machines');
  if (name === undefined) {
    const [only, ...others] = machines;
    if (only !== undefined && others.length === 0) return only;
    const message = only === undefined ? 'No machine is yours yet.' : 'Which machine is meant?';
    throw new CliError({ code: 'not_found', message, fix: list, exit: 'not_found' });
  }
  const found =
    machines.find((one) => one.id === name) ?? machines.find((one) => one.name === name);
  if (found !== undefined) return found;
  const near = nearNames(
    name,
    machines.map((one) => one.name),
  );
  const fix = near.length > 0 ? `did you mean ${near.join(' or ')}?` : list;
  const message = `There is no machine ${name}.`;
  throw new CliError({ code: 'not_found', message, fix, exit: 'not_found' });
}

function print(context: Context, machine: Machine, { json }: MachineOptions): void {
  if (json) {
    printJson(context, machine);
    return;
  }
  for (const line of facts(machine, context.io.clock.now())) printData(context, line);
  const { inventory } = machine;
  const standing = standingLines(machine);
  if (standing.length > 0) printData(context, '');
  for (const line of standing) printNote(context, 'ok', line, null, '');
  if (inventory === null) return;
  if (inventory.gpus.length > 0) {
    printData(context, '');
    for (const gpu of inventory.gpus) printGpu(context, gpu, machine.held_gpus ?? []);
  }
  const others = inventory.findings.filter(
    ({ check, status }) => status !== 'ok' && (check !== 'gpu' || inventory.gpus.length === 0),
  );
  const idle = inventory.drivers.filter((driver) => !driver.ready);
  if (others.length + idle.length > 0) printData(context, '');
  for (const { status, message, fix } of others) printNote(context, status, message, fix, '');
  for (const { driver, why } of idle) {
    printNote(context, 'missing', `${driver} cannot run: ${why ?? 'not ready'}`, null, '');
  }
}

function facts(machine: Machine, now: number): string[] {
  const { inventory, offered, held } = machine;
  const free = (part: keyof Machine['offered']) => Math.max(0, offered[part] - held[part]);
  const ready = inventory?.drivers.filter((one) => one.ready).map((one) => one.driver) ?? [];
  return pairLines([
    ['name', oneLine(machine.name)],
    ['id', machine.id],
    ['state', onlineText(machine, now)],
    ['reclaim', machine.reclaim && reclaimText(machine.reclaim, now)],
    ['guard', guardText(machine)],
    ['owner', oneLine(machine.owner)],
    ['region', machine.region],
    ['shared', sharedText(machine)],
    ['drained', machine.drained_at === null ? null : 'it takes nothing new'],
    ['offers', capsText(machine) === null ? null : `at most ${capsText(machine)}`],
    ['system', inventory && oneLine(`${inventory.os} ${inventory.os_version}, ${inventory.arch}`)],
    ['processor', inventory && `${oneLine(inventory.cpu_model)}, ${inventory.cpu_count} cores`],
    ['cpu free', `${free('cpu_millis') / 1000} of ${offered.cpu_millis / 1000}`],
    [
      'memory free',
      `${formatMemory(free('memory_bytes'))} of ${formatMemory(offered.memory_bytes)}`,
    ],
    ['disk free', inventory && formatBytes(inventory.disk_free_bytes)],
    ['gpus', inventory && (inventory.gpus.length === 0 ? 'none' : countGpus(inventory.gpus))],
    ['drivers', ready.length === 0 ? null : ready.join(', ')],
    ['runs', machine.workloads.length === 0 ? null : machine.workloads.join(', ')],
  ]);
}

/** `chat, lab (shared)`; null where nobody has it. */
function heldText(held: NonNullable<Machine['held_gpus']>[number] | undefined): string | null {
  if (held === undefined) return null;
  const names = held.workloads.map(oneLine).join(', ') || "another tenant's workload";
  return held.shared ? `${names} (shared)` : names;
}

function countGpus(gpus: GpuRecord[]): string {
  const usable = gpus.filter(({ state, usable_by }) => state === 'ok' && usable_by.length > 0);
  return `${gpus.length}, ${usable.length} usable`;
}

const words: Record<GpuRecord['usable_by'][number], string> = {
  docker: 'containers',
  libvirt: 'virtual machines',
};

function printGpu(context: Context, gpu: GpuRecord, held: NonNullable<Machine['held_gpus']>): void {
  const by = gpu.usable_by.map((driver) => words[driver]).join(' and ') || 'nothing yet';
  const is_usable = gpu.state === 'ok' && gpu.usable_by.length > 0;
  const state = gpu.state.replace('_', ' ');
  const text = gpu.state === 'ok' ? `ok, usable by ${by}` : state;
  const size = gpu.memory_bytes === 0 ? null : formatMemory(gpu.memory_bytes);
  const kept =
    gpu.reserved_bytes === 0 ? '' : `, ${formatMemory(gpu.reserved_bytes)} kept for its display`;
  printData(context, tint(context, context.io.stdout, 'bold', oneLine(gpu.model)));
  const lines = pairLines([
    ['state', tint(context, context.io.stdout, is_usable ? 'green' : 'yellow', text)],
    ['memory', size && `${size}${gpu.unified ? ' of the machine' : ''}${kept}`],
    ['class', gpu.mig_of === null ? gpuClassName(gpu.model, gpu.memory_bytes) : null],
    ['uuid', gpu.uuid],
    ['held by', heldText(held.find(({ uuid }) => uuid === gpu.uuid))],
    ['part of', gpu.mig_of],
    ['address', gpu.pci],
    ['driver', gpu.driver_version],
    ['display', gpu.display_attached ? 'attached' : null],
    ['mig', gpu.mig_of === null ? gpu.mig_mode : null],
  ]);
  for (const line of lines) printData(context, `  ${line}`);
  for (const { message, fix } of gpu.reasons) {
    printNote(context, gpu.state === 'ok' ? 'ok' : 'warning', message, fix, '  ');
  }
}

const marks: Record<string, { mark: string; color: Tint }> = {
  ok: { mark: '·', color: 'dim' },
  warning: { mark: '!', color: 'yellow' },
  missing: { mark: '✘', color: 'red' },
};

function printNote(
  context: Context,
  status: string,
  message: string,
  fix: string | null,
  indent: string,
): void {
  const { mark = '!', color = 'yellow' } = marks[status] ?? {};
  const shown = tint(context, context.io.stdout, color, mark);
  printData(context, `${indent}${shown} ${oneLine(message)}`);
  if (fix !== null) printData(context, `${indent}    ${oneLine(fix)}`);
}
