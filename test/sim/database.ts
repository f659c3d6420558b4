/**
 * The disk of the control plane: a database in memory that outlives its process, and the faults of
 * writing to it.
 */

import { openMemoryStore } from '../../src/store/memory.ts';
import { StoreError } from '../../src/store/sql.ts';
import { type MemoryConnection, openMemoryConnection } from '../../src/store/sqlite.ts';
import { type EinsoraStore, transactions } from '../../src/store/transactions.ts';
import type { Life } from './life.ts';
import type { WriteFault } from './schedule.ts';
import { type Watch, watchDatabase } from './watch.ts';

export type Database = {
  readonly watch: Watch;
  /** Counts the restores before this one. */
  readonly incarnation: number;
  /** The store as one process has it. */
  open(life: Life): EinsoraStore;
  /** The next writes fail. */
  fail(code: WriteFault, happens: boolean, count: number): void;
  heal(): void;
  /** True where something may have been written since the last call. */
  wasWritten(): boolean;
  copy(): Uint8Array;
  /** What a copy does before it is served. */
  restore(): Promise<void>;
  close(): void;
};

let template: Uint8Array | null = null;

/** An empty database with the program's schema, or a copy of another one. */
export function openDatabase(copy?: Uint8Array, incarnation = 1): Database {
  const connection = openMemoryConnection(copy ?? emptyDatabase());
  connection.exec('pragma foreign_keys = on');
  const watch = watchDatabase(connection);
  let fault: { code: WriteFault; happens: boolean; left: number } | null = null;
  let written = true;

  function faultOf(): { code: WriteFault; happens: boolean } | null {
    if (fault === null) return null;
    const { code, happens } = fault;
    fault.left -= 1;
    if (fault.left <= 0) fault = null;
    return { code, happens };
  }

  async function transact(life: Life, name: string, work: () => Promise<unknown>) {
    const failing = faultOf();
    if (failing === null) {
      const result = await work();
      written = true;
      return result;
    }
    const { code, happens } = failing;
    if (code !== 'outcome_unknown') throw new StoreError(code, `${name} was made to fail`);
    if (happens)
      await work().finally(() => {
        written = true;
      });
    // Whoever cannot know what is on disk ends the process, once the caller was told.
    queueMicrotask(() => queueMicrotask(() => life.kill('outcome unknown')));
    throw new StoreError(code, `${name} was made to be unknown`);
  }

  return {
    watch,
    incarnation,
    open(life) {
      const store = openMemoryStore({ transactions, connection });
      return {
        transact: (name, args) =>
          life.async(`store.${name}`, () =>
            transact(life, name, () => store.transact(name, args)),
          ) as Promise<never>,
        read: (query, args) => life.async('store.read', () => store.read(query, args)),
        failed: new Promise(() => {}),
        close: () => store.close(),
      };
    },
    fail: (code, happens, count) => {
      fault = { code, happens, left: code === 'outcome_unknown' ? 1 : count };
    },
    heal: () => {
      fault = null;
    },
    wasWritten() {
      const was = written;
      written = false;
      return was;
    },
    copy: () => connection.serialize(),
    async restore() {
      await openMemoryStore({ transactions, connection }).transact('restoreStore', {});
    },
    close: () => connection.close(),
  };
}

/** Made once, for the schema is the same in every story. */
function emptyDatabase(): Uint8Array {
  if (template !== null) return template;
  const connection: MemoryConnection = openMemoryConnection();
  openMemoryStore({ transactions, connection });
  template = connection.serialize();
  connection.close();
  return template;
}
