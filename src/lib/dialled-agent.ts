/**
 * Kept HTTP connections to one place that is dialled, not named: a run's port, over whatever lies
 * between.
 *
 * Invariants: an idle connection is closed before the program at the other end would close it
 * (`idle_ms`); once retired, none is kept for a next request; a failed dial is a DialError in the
 * request that asked for it.
 */
import { Agent, type ClientRequestArgs } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from './clock.ts';

/** Thrown into a request whose connection could not be opened. */
export class DialError extends Error {}

/** llama-server closes after 5 s, and so do others. */
const idle_ms = 4_000;
/** One look at all that is idle, in place of a timer for each: they come and go with each request. */
const look_ms = 1_000;

type Time = Pick<Clock, 'after' | 'monotonic'>;

export class DialledAgent extends Agent {
  readonly #dial: () => Promise<Duplex>;
  readonly #clock: Time;
  /** Since when each that is kept is idle. */
  readonly #since = new WeakMap<Duplex, number>();
  #cancelLook: (() => void) | null = null;
  #retired = false;

  constructor(dial: () => Promise<Duplex>, clock: Time, idle_limit = 16) {
    // A name for TLS, which there is none of: left out, Node works one out for each request.
    const unnamed = { servername: '' };
    super({ keepAlive: true, maxFreeSockets: idle_limit, ...unnamed });
    this.#dial = dial;
    this.#clock = clock;
  }

  /** From now on no connection is kept for a next request. */
  retire(): void {
    this.#retired = true;
    this.dropIdle();
  }

  dropIdle(): void {
    for (const connection of this.#idle()) connection.destroy();
    this.#cancelLook?.();
    this.#cancelLook = null;
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
        settle(null, likeSocket(connection));
      },
      (cause) => settle(new DialError('it could not be dialled', { cause })),
    );
  }

  override keepSocketAlive(connection: Duplex): boolean {
    if (this.#retired) return false;
    this.#since.set(connection, this.#clock.monotonic());
    this.#cancelLook ??= this.#clock.after(look_ms, () => this.#look());
    return true;
  }

  #look(): void {
    // What would be too old by the next look goes now.
    const before = this.#clock.monotonic() - (idle_ms - look_ms);
    let left = false;
    for (const connection of this.#idle()) {
      if ((this.#since.get(connection) ?? 0) > before) left = true;
      else connection.destroy();
    }
    this.#cancelLook = left ? this.#clock.after(look_ms, () => this.#look()) : null;
  }

  /** Those that Node keeps for a next request. */
  #idle(): Duplex[] {
    return Object.values(this.freeSockets).flatMap((kept) => kept ?? []);
  }
}

/** Node's agent calls `ref` on what it keeps; a stream out of a tunnel has none. */
function likeSocket(connection: Duplex): Duplex {
  return 'ref' in connection ? connection : Object.assign(connection, { ref: () => connection });
}
