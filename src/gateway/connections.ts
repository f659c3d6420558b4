/**
 * Connections to engines, kept per run.
 *
 * Invariants: a connection never serves another run than the one it was dialled for; when a run is
 * followed by another, its idle connections are closed and its busy ones end with their request; an
 * idle connection is closed before the engine would close it (llama-server does after 5 s).
 */
import { Agent, type ClientRequest, type ClientRequestArgs } from 'node:http';
import type { Duplex } from 'node:stream';
import { type RunKey, runName } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';

/** Opens a byte stream to a named port of a run. Rejects when it cannot. */
export type Dial = (run: RunKey, machine_id: string, port_name: string) => Promise<Duplex>;

export type Connections = {
  /** The connections of one run. */
  of(run: RunKey, machine_id: string): RunConnections;
  /** Closes what is idle, and what is busy as soon as it is not. */
  close(): void;
};

/** Thrown into a request whose connection could not be opened. */
export class DialError extends Error {}

/** The port on which every runtime's engine speaks HTTP. */
const engine_port = 'api';
const idle_ms = 4_000;
const idle_limit = 16;
const sweep_at = 64;

export function createConnections(dial: Dial, clock: Pick<Clock, 'after'>): Connections {
  const known = new Map<string, { run_epoch: number; connections: RunConnections }>();
  let closed = false;
  const open = (run: RunKey, machine_id: string) =>
    new RunConnections(() => dial(run, machine_id, engine_port), clock);
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

export class RunConnections extends Agent {
  readonly #dial: () => Promise<Duplex>;
  readonly #clock: Pick<Clock, 'after'>;
  readonly #idle = new Map<Duplex, () => void>();
  #retired = false;

  constructor(dial: () => Promise<Duplex>, clock: Pick<Clock, 'after'>) {
    super({ keepAlive: true, maxFreeSockets: idle_limit });
    this.#dial = dial;
    this.#clock = clock;
  }

  /** From now on no connection is kept for a next request. */
  retire(): void {
    this.#retired = true;
    this.dropIdle();
  }

  dropIdle(): void {
    for (const [connection, cancel] of this.#idle) {
      cancel();
      connection.destroy();
    }
    this.#idle.clear();
  }

  isEmpty(): boolean {
    const { sockets, freeSockets } = this;
    return Object.keys(sockets).length === 0 && Object.keys(freeSockets).length === 0;
  }

  override createConnection(
    _options: ClientRequestArgs,
    callback?: (error: Error | null, connection: Duplex) => void,
  ): undefined {
    // Node's declared callback has no form for a failure without a connection.
    const settle = callback as (error: Error | null, connection?: Duplex) => void;
    this.#dial().then(
      (connection) => {
        // An error before the request has its own listener must not end the process.
        connection.on('error', () => {});
        connection.once('close', () => this.#leaveIdle(connection));
        settle(null, likeSocket(connection));
      },
      (cause) => settle(new DialError('the engine could not be dialled', { cause })),
    );
  }

  override keepSocketAlive(connection: Duplex): boolean {
    if (this.#retired) return false;
    this.#idle.set(
      connection,
      this.#clock.after(idle_ms, () => connection.destroy()),
    );
    return true;
  }

  override reuseSocket(connection: Duplex, request: ClientRequest): void {
    this.#leaveIdle(connection);
    super.reuseSocket(connection, request);
  }

  #leaveIdle(connection: Duplex): void {
    this.#idle.get(connection)?.();
    this.#idle.delete(connection);
  }
}

/** Node's agent calls `ref` on what it keeps; a stream out of a tunnel has none. */
function likeSocket(connection: Duplex): Duplex {
  return 'ref' in connection ? connection : Object.assign(connection, { ref: () => connection });
}
