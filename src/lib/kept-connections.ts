/**
 * Kept HTTP/1.1 connections to one place that is dialled, not named: a run's port, over whatever
 * lies between.
 *
 * Invariants: an idle connection is closed before the program at the other end would close it
 * (`idle_ms`); once retired, none is kept for a next question; no more than `idle_limit` are idle.
 */
import type { Duplex } from 'node:stream';
import { rememberHead } from './answer-head.ts';
import type { Clock } from './clock.ts';
import { createHttpConnection, type HttpConnection } from './http-connection.ts';

/** llama-server closes after 5 s, and so do others. */
const idle_ms = 4_000;
/** One look at all that is idle, in place of a timer for each: they come and go with each request. */
const look_ms = 1_000;

export type KeptConnections = {
  /** One that is idle, the last used; null: there is none. */
  takeIdle(): HttpConnection | null;
  /** A fresh one. Rejects with what dialling rejected with. */
  open(): Promise<HttpConnection>;
  dropIdle(): void;
  /** From now on none is kept for a next question. */
  retire(): void;
  isEmpty(): boolean;
};

export function keepConnections(
  dial: () => Promise<Duplex>,
  clock: Pick<Clock, 'after' | 'monotonic'>,
  idle_limit: number,
): KeptConnections {
  const all = new Set<HttpConnection>();
  const readHead = rememberHead();
  /** In the order in which they became so. */
  const idle: { connection: HttpConnection; since: number }[] = [];
  let cancelLook: (() => void) | null = null;
  let is_retired = false;

  function free(connection: HttpConnection): void {
    if (is_retired || idle.length >= idle_limit) {
      connection.destroy();
      return;
    }
    idle.push({ connection, since: clock.monotonic() });
    cancelLook ??= clock.after(look_ms, look);
  }

  function ended(connection: HttpConnection): void {
    all.delete(connection);
    const at = idle.findIndex((one) => one.connection === connection);
    if (at >= 0) idle.splice(at, 1);
  }

  function look(): void {
    // What would be too old by the next look goes now.
    const before = clock.monotonic() - (idle_ms - look_ms);
    for (const { connection, since } of [...idle]) if (since <= before) connection.destroy();
    cancelLook = idle.length > 0 ? clock.after(look_ms, look) : null;
  }

  function dropIdle(): void {
    for (const { connection } of [...idle]) connection.destroy();
    cancelLook?.();
    cancelLook = null;
  }

  return {
    takeIdle: () => idle.pop()?.connection ?? null,
    async open() {
      const made = createHttpConnection(await dial(), { free, ended }, readHead);
      all.add(made);
      return made;
    },
    dropIdle,
    retire() {
      is_retired = true;
      dropIdle();
    },
    isEmpty: () => all.size === 0,
  };
}
