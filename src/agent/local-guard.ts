/**
 * The guard of this machine: its sensors, its policy file, its button, and what of them stands in
 * the inventory.
 */
import type { Inventory } from '../contract/machines.ts';
import type { Driver, Finding } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { buttonPath } from './guard/button.ts';
import type { GuardParts } from './guard/guard.ts';
import { createMacSensors } from './guard/mac-sensors.ts';
import { createLinuxSensors, type Sensors } from './guard/sensors.ts';
import { createMachineReader, type Exec } from './inventory/machine-reader.ts';
import type { Offer } from './inventory/offer.ts';
import { type CurrentPolicy, openPolicy, policyPaths } from './policy-source.ts';

export type LocalGuard = GuardParts & {
  /** The offer as the policy of the machine narrows it. */
  narrow(offer: Offer): Offer;
  /** What the policy adds to a look at the machine, which the guard learns from. */
  seen(inventory: Inventory): Inventory;
};

export type LocalGuardOptions = {
  data_dir: string;
  exec: Exec;
  drivers: ReadonlyMap<string, Driver>;
  clock: Clock;
};

export function openLocalGuard({ data_dir, exec, drivers, clock }: LocalGuardOptions): LocalGuard {
  const policy = openPolicy(policyPaths(data_dir));
  const reader = createMachineReader(exec);
  let known: Inventory | null = null;
  const parts = {
    ...{ reader, clock, folder: data_dir, button_path: buttonPath(data_dir) },
    oursMs: () => cpuOf(drivers),
    foreignGpus: () =>
      known?.gpus.flatMap(({ state, uuid }) => (state === 'busy_owner' ? [uuid ?? ''] : [])) ??
      null,
    hasGpus: () => known?.gpus.some(({ vendor }) => vendor === 'nvidia') === true,
  };
  // Both are known once the machine was looked at, which comes first.
  const make = (): Sensors => {
    const cores_millis = Math.max(1, known?.cpu_count ?? 1) * 1000;
    const memory_bytes = known?.memory_bytes ?? 0;
    return process.platform === 'darwin'
      ? createMacSensors({ ...parts, cores_millis, memory_bytes })
      : createLinuxSensors({ ...parts, cores_millis });
  };
  let made: { cpu_count: number | null; sensors: Sensors } | null = null;
  const sensors = (): Sensors => {
    const cpu_count = known?.cpu_count ?? null;
    if (made === null || made.cpu_count !== cpu_count) made = { cpu_count, sensors: make() };
    return made.sensors;
  };
  return {
    policy,
    sensors: { read: () => sensors().read(), pressed: () => sensors().pressed() },
    narrow(offer) {
      const { reserve } = policy.current().policy;
      return { ...offer, reserve };
    },
    seen(inventory) {
      known = inventory;
      const now = policy.current();
      const found = policyFinding(now);
      const own = found === null ? [] : [found];
      return {
        ...inventory,
        findings: [...inventory.findings, ...own],
        ...(now.path === null ? {} : { refuses: now.policy.refuses }),
      };
    },
  };
}

/** For the doctor and the page of the machine; null where there is no file. */
export function policyFinding({ path, problem }: CurrentPolicy): Finding | null {
  if (path === null) return null;
  const check = 'policy';
  if (problem === null) {
    return { check, status: 'ok', message: `the policy of this machine is ${path}`, fix: null };
  }
  const message =
    `${path} is no policy: ${problem}; what was in force before stays so, ` +
    'and without that guests are kept out';
  return { check, status: 'warning', message, fix: `bin/einsora machine policy check ${path}` };
}

/** CPU time of all that runs here; null where a driver cannot tell of one of them. */
async function cpuOf(drivers: ReadonlyMap<string, Driver>): Promise<number | null> {
  let sum = 0;
  for (const driver of drivers.values()) {
    for (const { run, state } of await driver.observe()) {
      if (state !== 'running') continue;
      const { cpu_ms } = await driver.stats(run);
      if (cpu_ms === null) return null;
      sum += cpu_ms;
    }
  }
  return sum;
}
