/**
 * A wire between a store and its Postgres that a test can cut, also at the worst of moments.
 *
 * Invariants: bytes pass unchanged in both directions until it is told otherwise.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../src/lib/secret.ts';
import { type TestDatabase, urlOf } from './postgres.ts';

export type Wire = {
  /** The database, over this wire. */
  url: Secret;
  /** Cuts every connection. New ones are taken. */
  cut(): void;
  /** The same, without the server noticing: its side stays open. */
  cutUnnoticed(): void;
  /** Lets no answer through any more, on the connections that are there. */
  hush(): void;
  /** Refuses new connections, or takes them again. */
  refuse(refused: boolean): void;
  /** Cuts once the next COMMIT comes: before it reaches the server, or before its answer does. */
  cutAtCommit(when: 'before' | 'after'): void;
  close(): Promise<void>;
};

export async function stretchWire(database: TestDatabase): Promise<Wire> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-wire-'));
  const sockets = new Set<Socket>();
  let refused = false;
  let connections = 0;
  let hushed = 0;
  let unnoticed = false;
  let at_commit: 'before' | 'after' | null = null;
  const nears = new Set<Socket>();
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((near) => {
    if (refused) return void near.destroy();
    const far = createConnection(join(database.at, '.s.PGSQL.5432'));
    let deaf = false;
    const number = connections;
    connections += 1;
    nears.add(near);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        if (!(unnoticed && socket === near)) other.destroy();
      });
    }
    near.on('data', (bytes) => {
      const when = bytes.includes('commit\0') ? at_commit : null;
      if (when !== null) at_commit = null;
      if (when === 'before') return cut();
      deaf = when === 'after';
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (deaf) cut();
      else if (number >= hushed) near.write(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(join(folder, '.s.PGSQL.5432'), resolve));
  return {
    url: new Secret(urlOf(folder, database.name)),
    cut,
    cutUnnoticed() {
      unnoticed = true;
      for (const socket of nears) socket.destroy();
      nears.clear();
    },
    hush() {
      hushed = connections;
    },
    refuse: (value) => {
      refused = value;
      if (value) cut();
    },
    cutAtCommit: (when) => {
      at_commit = when;
    },
    async close() {
      unnoticed = false;
      cut();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
