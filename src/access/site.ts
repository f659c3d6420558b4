/**
 * What answers at the hosts of workloads' sites, as the listeners see it.
 *
 * Contract: called only with a request whose one Host is `w-<workload_id>.localhost` with our own
 * port; both answer whatever comes, and neither throws. `upgrade` is called only for a WebSocket's
 * opening handshake, and owns the socket from then on.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Log } from '../lib/log.ts';

export type SiteFacts = {
  workload_id: string;
  /** The whole of it, in lower case, as in the site's Origin. */
  host: string;
  request_id: string;
  log: Log;
  /** The client waits for a `100 Continue` before it sends the body. */
  expects_continue: boolean;
};

export type Sites = {
  handle(request: IncomingMessage, response: ServerResponse, facts: SiteFacts): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, facts: SiteFacts): void;
};
