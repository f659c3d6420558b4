/**
 * CPU and memory of a Mac, out of what `sysctl` prints.
 *
 * Invariants: reads `name: value` lines and believes nothing else; a Mac has no control groups, so
 * what it has is what can be used.
 */
import type { Capacity } from './capacity.ts';

export const mac_sysctls = [
  'hw.memsize',
  'hw.ncpu',
  'machdep.cpu.brand_string',
  'kern.hv_vmm_present',
];

export type MacFacts = Capacity & { in_vm: boolean };

/** `text` is the output of `sysctl hw.memsize hw.ncpu ...`; null where a figure is missing. */
export function readMacCapacity(text: string): MacFacts | null {
  const value = (name: string) =>
    text
      .split('\n')
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2)
      .trim();
  const memory_bytes = Number(value('hw.memsize'));
  const cpu_count = Number(value('hw.ncpu'));
  if (!(memory_bytes > 0) || !(cpu_count > 0)) return null;
  return {
    cpu_model: (value('machdep.cpu.brand_string') ?? 'unknown').slice(0, 256),
    cpu_count,
    cpu_millis: cpu_count * 1000,
    memory_bytes,
    narrowed_by: [],
    in_vm: value('kern.hv_vmm_present') === '1',
  };
}
