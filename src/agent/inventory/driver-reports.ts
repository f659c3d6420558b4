/**
 * What the drivers' probes mean for placement.
 *
 * Invariants: a driver that is not ready always says why, in words of its own findings before those
 * of the table of reasons; which kinds a driver can run is the program's knowledge, not the
 * machine's.
 */
import type { DriverReport } from '../../contract/machines.ts';
import { sentenceOf } from '../../core/reasons.ts';
import type { DriverName } from '../../core/trust.ts';
import type { Kind } from '../../core/workload.ts';
import type { DriverProbe } from '../../drivers/driver.ts';

const driverKinds: Record<DriverName, Kind[]> = {
  sim: ['vm', 'notebook', 'endpoint', 'instance'],
  'linux-native': ['endpoint', 'notebook'],
  'macos-native': ['endpoint'],
  docker: ['endpoint', 'notebook', 'instance'],
  libvirt: ['vm'],
  'macos-vz': ['vm'],
  'macos-container': ['endpoint', 'notebook', 'instance'],
};

export function driverReport(probe: DriverProbe): DriverReport {
  return {
    driver: probe.driver,
    ready: probe.ready,
    why: probe.ready ? null : whyNot(probe),
    why_code: probe.ready ? null : probe.reason,
    kinds: driverKinds[probe.driver],
    findings: probe.findings,
  };
}

function whyNot(probe: DriverProbe): string {
  const first =
    probe.findings.find((finding) => finding.status === 'missing') ??
    probe.findings.find((finding) => finding.status === 'warning');
  if (first) return first.message;
  return probe.reason === null ? 'its probe failed' : sentenceOf(probe.reason);
}
