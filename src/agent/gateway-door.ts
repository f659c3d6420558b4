/**
 * The control plane's gateway, as an agent and the programs of its machine find it.
 *
 * Invariants: the agent knows nothing else of where the control plane is; in Solo it is a port of
 * this very machine, known once the control plane listens. A remote agent has the same interface
 * over its own connection.
 */
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';

export type GatewayDoor = {
  /** The base URL for programs that share the machine's network. */
  url(): string;
  /** The host name that it answers to. */
  host(): string;
  /** A stream to it; rejects where there is none. */
  dial(): Promise<Duplex>;
};

export function localGateway(port: () => number): GatewayDoor {
  const host = () => `localhost:${port()}`;
  return {
    url: () => `http://${host()}/v1`,
    host,
    dial: () =>
      new Promise((resolve, reject) => {
        const socket = connect({ port: port(), host: '127.0.0.1', noDelay: true });
        socket.once('error', reject);
        socket.once('connect', () => {
          socket.off('error', reject);
          resolve(socket);
        });
      }),
  };
}
