/**
 * Streams and output of runs of machines whose agents live in this process, straight from their
 * drivers.
 *
 * Invariants: a run that no driver here knows is answered like one that never was.
 */
import { EinsoraError } from '../contract/errors.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Driver } from '../drivers/driver.ts';
import type { ExecAsk } from '../lib/session.ts';

/** The driver that has a run of a machine, where that is one of ours. */
export type DriverOf = (machine_id: string, run: RunKey) => Driver | undefined;

export function createRunBackend(find: DriverOf) {
  const driverOf = (machine_id: string, run: RunKey): Driver => {
    const driver = find(machine_id, run);
    if (driver === undefined) throw new EinsoraError('not_found', { what: `run ${runName(run)}` });
    return driver;
  };
  return {
    dial: async (machine: string, run: RunKey, port_name: string) =>
      driverOf(machine, run).dial(run, port_name),
    logs: async (machine: string, run: RunKey, offset: number, limit: number) =>
      driverOf(machine, run).logs(run, offset, limit),
    exec: async (machine: string, run: RunKey, ask: ExecAsk, signal: AbortSignal) =>
      driverOf(machine, run).exec(run, ask, signal),
    files: async (machine: string, run: RunKey) => driverOf(machine, run).files(run),
    connect: async (machine: string, run: RunKey, tcp_port: number) =>
      driverOf(machine, run).connect(run, tcp_port),
  };
}
