/**
 * Battery and heat of a Linux machine, from files below /sys and from nvidia-smi.
 *
 * Invariants: the battery of a mouse is not the machine's; a figure that makes no sense is left
 * out; what nobody tells is null.
 */
import type { MachineReader } from '../inventory/machine-reader.ts';
import type { PowerReading } from './readings.ts';

type Files = Pick<MachineReader, 'read' | 'list'>;

const supplies = '/sys/class/power_supply';
const zones = '/sys/class/thermal';
const monitors = '/sys/class/hwmon';

/** A machine without any supply that says so is on mains: desktops and servers list none. */
export function readPower(files: Files): PowerReading | null {
  const supply = files.list(supplies).map((name) => readSupply(files, name));
  const batteries = supply.filter((one) => one.is_battery);
  const known = batteries.map(({ percent }) => percent).filter((one) => one !== null);
  const percent = known.length === 0 ? null : Math.min(...known);
  const on_mains = supply.some((one) => one.is_online);
  if (batteries.length === 0 || on_mains) return { source: 'mains', percent };
  if (batteries.some(({ status }) => status === 'Discharging'))
    return { source: 'battery', percent };
  const is_unclear = batteries.some(({ status }) => status === null || status === 'Unknown');
  return is_unclear ? null : { source: 'mains', percent };
}

function readSupply({ read }: Files, name: string) {
  const of = (file: string) => read(`${supplies}/${name}/${file}`)?.trim() ?? null;
  const type = of('type');
  return {
    is_battery: type === 'Battery' && of('scope') !== 'Device' && of('present') !== '0',
    is_online: (type === 'Mains' || type === 'USB') && of('online') === '1',
    status: of('status'),
    percent: percentOf(of('capacity')),
  };
}

function percentOf(text: string | null): number | null {
  const value = Number(text ?? 'nothing');
  return value >= 0 && value <= 100 ? value : null;
}

const zone_types = /^(?:x86_pkg_temp|coretemp|cpu|soc|k10temp|acpitz$|tz-cpu|package)/i;
const monitor_names = ['coretemp', 'k10temp', 'zenpower', 'cpu_thermal'];

/** The hottest sensor of the processor. */
export function readCpuHeat({ read, list }: Files): number | null {
  const found: number[] = [];
  for (const name of list(zones).filter((one) => one.startsWith('thermal_zone'))) {
    if (!zone_types.test(read(`${zones}/${name}/type`)?.trim() ?? '')) continue;
    found.push(...degrees(read(`${zones}/${name}/temp`)));
  }
  for (const name of list(monitors)) {
    if (!monitor_names.includes(read(`${monitors}/${name}/name`)?.trim() ?? '')) continue;
    for (const file of list(`${monitors}/${name}`)) {
      if (/^temp\d+_input$/.test(file)) found.push(...degrees(read(`${monitors}/${name}/${file}`)));
    }
  }
  return found.length === 0 ? null : Math.max(...found);
}

/** Of thousandths; sensors that are not connected say 0, -40 or 255. */
function degrees(text: string | null): number[] {
  const value = Number(text?.trim() || 'nothing') / 1000;
  return value > 0 && value < 150 ? [value] : [];
}

export const gpu_heat_args = ['--query-gpu=temperature.gpu', '--format=csv,noheader,nounits'];

/** Of what nvidia-smi prints: the hottest GPU. */
export function parseGpuHeat(text: string): number | null {
  const found = text
    .split('\n')
    .map((line) => Number(line.trim() || 'nothing'))
    .filter((value) => value > 0 && value < 150);
  return found.length === 0 ? null : Math.max(...found);
}
