/**
 * All drivers: which are built into this version, and on what system each can work.
 *
 * Invariants: every name has an entry, so that a probe can say of each why it is not there.
 */
import { sentenceOf } from '../core/reasons.ts';
import type { DriverName } from '../core/trust.ts';
import { createDockerDriver, type DockerOptions } from './docker/docker.ts';
import type { Driver, DriverProbe } from './driver.ts';
import { createNativeDriver, type NativeOptions } from './native/native.ts';
import { createSimDriver, type SimOptions } from './sim.ts';

type Entry<Options> = {
  /** The systems it works on, as `process.platform` names them; null for any. */
  platform: NodeJS.Platform | null;
  create: ((options: Options) => Driver) | null;
};

export const drivers = {
  'linux-native': { platform: 'linux', create: createNativeDriver } as Entry<NativeOptions>,
  sim: { platform: null, create: createSimDriver } as Entry<SimOptions>,
  docker: { platform: null, create: createDockerDriver } as Entry<DockerOptions>,
  libvirt: { platform: 'linux', create: null },
  'macos-native': { platform: 'darwin', create: null },
  'macos-vz': { platform: 'darwin', create: null },
  'macos-container': { platform: 'darwin', create: null },
} as const satisfies Record<DriverName, { platform: NodeJS.Platform | null; create: unknown }>;

/** The drivers of this system that this version lacks, as probes that say so. */
export function missingDrivers(platform: NodeJS.Platform): DriverProbe[] {
  return driverNames
    .filter((name) => drivers[name].create === null && suits(name, platform))
    .map((driver) => ({
      driver,
      ready: false,
      reason: 'driver_not_built',
      findings: [
        {
          check: driver,
          status: 'missing',
          message: sentenceOf('driver_not_built', { driver }),
          fix: null,
        },
      ],
    }));
}

/** Whether a driver could work on this system at all. */
export function suits(name: DriverName, platform: NodeJS.Platform): boolean {
  const only_on = drivers[name].platform;
  return only_on === null || only_on === platform;
}

const driverNames = Object.keys(drivers) as DriverName[];
