/**
 * Connections to engines, kept per run.
 *
 * Invariants: a connection never serves another run than the one it was dialled for; when a run is
 * followed by another, its idle connections are closed and its busy ones end with their request; an
 * idle connection is closed before the engine would close it (llama-server does after 5 s).
 */
import type { Duplex } from 'node:stream';
import { limits } from '../contract/limits.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { type KeptConnections, keepConnections } from '../lib/kept-connections.ts';

/** Opens a byte stream to a named port of a run. Rejects when it cannot. */
export type Dial = (run: RunKey, machine_id: string, port_name: string) => Promise<Duplex>;

export type Connections = {
  /** The connections of one run. */
  of(run: RunKey, machine_id: string): RunConnections;
  /** Closes what is idle, and what is busy as soon as it is not. */
  close(): void;
};

export type RunConnections = KeptConnections;

/** The port on which every runtime's engine speaks HTTP. */
const engine_port = 'api';
const sweep_at = 64;

export function createConnections(
  dial: Dial,
  clock: Pick<Clock, 'after' | 'monotonic'>,
): Connections {
  const known = new Map<string, { run_epoch: number; connections: RunConnections }>();
  let closed = false;
  const open = (run: RunKey, machine_id: string) =>
    keepConnections(
      () => dial(run, machine_id, engine_port),
      clock,
      limits.gateway_idle_connections,
    );
  const sweep = () => {
    for (const [name, { connections }] of known) if (connections.isEmpty()) known.delete(name);
  };
  return {
    of(run, machine_id) {
      const name = runName({ ...run, run_epoch: 0 });
      const current = known.get(name);
      if (current?.run_epoch === run.run_epoch) return current.connections;
      const connections = open(run, machine_id);
      if (closed || (current !== undefined && current.run_epoch > run.run_epoch)) {
        // Asked with an old view: it may try, but must not push the newer run out.
        connections.retire();
        return connections;
      }
      current?.connections.retire();
      if (known.size >= sweep_at) sweep();
      known.set(name, { run_epoch: run.run_epoch, connections });
      return connections;
    },
    close() {
      closed = true;
      for (const { connections } of known.values()) connections.retire();
      known.clear();
    },
  };
}
