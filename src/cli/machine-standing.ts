/**
 * With whom a machine is shared, who may run what there, and what its host can see, in words.
 */
import type { Machine } from '../contract/machines.ts';
import { formatBytes, formatMemory } from '../core/format.ts';
import { type DriverName, driverIsolation, hostSees, isolationOf, rowOf } from '../core/trust.ts';
import { oneLine } from './output.ts';

/** "private", "invite-only: bobs, cyds", "community". */
export function sharedText({ sharing, invited }: Machine): string {
  if (sharing === 'private' || invited === null) return sharing;
  if (invited.length === 0) return sharing === 'community' ? sharing : 'invite-only: nobody yet';
  const guests = invited.map(oneLine).join(', ');
  return sharing === 'community' ? `community, and ${guests}` : `invite-only: ${guests}`;
}

/** What its owner lets it offer at most; null where that is all of it. */
export function capsText({ caps }: Machine): string | null {
  if (caps === null) return null;
  const { cpu_millis, memory_bytes, disk_bytes } = caps;
  const parts = [
    cpu_millis === null ? null : `${cpu_millis / 1000} CPU`,
    memory_bytes === null ? null : `${formatMemory(memory_bytes)} of memory`,
    disk_bytes === null ? null : `${formatBytes(disk_bytes)} of disk`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join(', ');
}

/** For each driver that works: whose workloads it runs, and what of them the host can see. */
export function standingLines(machine: Machine): string[] {
  const { inventory } = machine;
  if (inventory === null) {
    return [
      `yours run here in virtual machines only; their host, ${oneLine(machine.owner)}, can see: ${hostSees('libvirt')}`,
    ];
  }
  return inventory.drivers
    .filter((one) => one.ready)
    .flatMap((one) => {
      if (!isDriver(one.driver)) return [];
      const as = one.as !== undefined && isDriver(one.as) ? one.as : null;
      const isolation = isolationOf(one.driver, as);
      const sees = hostSees(rowOf(one.driver, as));
      return [
        `${one.driver} (${isolation}) runs what is of ${whose(machine, isolation)}; this host can see: ${sees}`,
      ];
    });
}

function whose(machine: Machine, isolation: 'strong' | 'weak'): string {
  const owner = oneLine(machine.owner);
  if (isolation === 'weak' || machine.sharing === 'private') return `${owner} alone`;
  if (machine.sharing === 'community') return 'everybody here';
  return [owner, ...(machine.invited ?? []).map(oneLine)].join(', ');
}

function isDriver(name: string): name is DriverName {
  return Object.hasOwn(driverIsolation, name);
}
