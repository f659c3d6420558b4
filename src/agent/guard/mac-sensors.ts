/**
 * Reads a Mac for its guard, by tools that come with macOS.
 *
 * Invariants: as those of sensors.ts. It has not been run on a Mac: its parsers are fed with
 * documented output.
 */
import type { MachineReader } from '../inventory/machine-reader.ts';
import {
  judgeMacOwner,
  parseBattery,
  parseConsole,
  parseHidIdle,
  parseMemoryPressure,
  parseThermal,
} from './mac.ts';
import { common, pressedNow, type SensorDeps, type Sensors } from './sensors.ts';

const tool_timeout_ms = 2_000;

export function createMacSensors(deps: SensorDeps & { memory_bytes: number }): Sensors {
  const { reader, memory_bytes, cores_millis } = deps;
  return {
    pressed: () => pressedNow(deps),
    async read() {
      const [hid, root, battery, thermal, pressure] = await Promise.all([
        ask(reader, 'ioreg', ['-c', 'IOHIDSystem', '-d', '4']),
        ask(reader, 'ioreg', ['-n', 'Root', '-d1']),
        ask(reader, 'pmset', ['-g', 'batt']),
        ask(reader, 'pmset', ['-g', 'therm']),
        ask(reader, 'sysctl', ['-n', 'kern.memorystatus_vm_pressure_level']),
      ]);
      const short = parseMemoryPressure(pressure);
      return {
        ...{ cores_millis, others_millis: null, memory_total_bytes: memory_bytes },
        memory_available_bytes: short === null ? null : shares[short] * memory_bytes,
        memory_stall_percent: null,
        owner: judgeMacOwner(parseHidIdle(hid), parseConsole(root)),
        power: parseBattery(battery),
        cpu_celsius: parseThermal(thermal),
        gpu_celsius: null,
        foreign_gpus: deps.foreignGpus(),
        ...common(deps),
      };
    },
  };
}

/** macOS says how short memory is, not how much there is: a share that stands for each word. */
const shares = { normal: 0.5, warning: 0.04, critical: 0 } as const;

async function ask(reader: MachineReader, tool: string, args: string[]): Promise<string> {
  const said = await reader.run(tool, args, tool_timeout_ms);
  return said.outcome === 'exited' && said.code === 0 ? said.stdout : '';
}
