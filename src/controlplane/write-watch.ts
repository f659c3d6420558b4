/**
 * What was read of the store is remembered until something is written that may concern it.
 *
 * Invariants: a watch sees every named transaction but those it was told to leave out, so a new one
 * is on the safe side; nothing is answered from memory while one is on its way, and nothing is kept
 * that was read beside one: whoever was told that a write happened finds it in force. Only for a
 * store that nobody else writes (ADR-0038).
 */
import type { EinsoraStore } from '../store/transactions.ts';

/**
 * What is written all the time, and leads no request and no placement anywhere else: on the tests'
 * rig such a transaction fails that writes a key, an endpoint or what else leads to one.
 */
export const background: ReadonlySet<string> = new Set([
  'closeRequestJournal',
  'forgetRequests',
  'openRequestJournal',
  'proveRunning',
  'recordNotes',
  'recordRequests',
  'recordSamples',
  'saveUses',
  'sealActivity',
  'touchSession',
  'touchToken',
]);

export type WriteWatch = {
  /** The store, through which all writes must go. */
  store: EinsoraStore;
  /** Another number after each write that may matter, or may have happened. */
  written(): number;
  /** Another number after each write that may matter; null while one is on its way. */
  asOf(): number | null;
};

/** `beside`: transactions that concern nothing which is remembered. */
export function watchWrites(store: EinsoraStore, beside: ReadonlySet<string>): WriteWatch {
  let generation = 0;
  let writing = 0;

  async function transact(name: never, args: never): Promise<never> {
    if (beside.has(name)) return (await store.transact(name, args)) as never;
    writing += 1;
    try {
      return (await store.transact(name, args)) as never;
    } finally {
      // Also after one that failed: where that is unknown, it may have happened.
      writing -= 1;
      generation += 1;
    }
  }

  return {
    store: { ...store, transact },
    written: () => generation,
    asOf: () => (writing === 0 ? generation : null),
  };
}

export type Memory<Value> = {
  /**
   * What is remembered under that name, or else what `read` finds. `isGood`: whether it may be
   * answered from memory; what may not is not kept, and read again.
   */
  get(
    name: string,
    read: () => Promise<Value>,
    isGood: (value: Value) => boolean,
  ): Value | Promise<Value>;
};

/** With one name more than `limit` all are forgotten. */
export function createMemory<Value>(asOf: WriteWatch['asOf'], limit: number): Memory<Value> {
  const known = new Map<string, { value: Value }>();
  let known_as_of: number | null = null;
  /** Reads under way: who asks meanwhile waits for the same one. */
  const reading = new Map<string, { as_of: number; value: Promise<Value> }>();

  async function readAnew(
    name: string,
    read: () => Promise<Value>,
    isGood: (value: Value) => boolean,
  ): Promise<Value> {
    const before = asOf();
    const value = await read();
    if (before === null || before !== asOf() || !isGood(value)) return value;
    if (known_as_of !== before || known.size >= limit) known.clear();
    known_as_of = before;
    known.set(name, { value });
    return value;
  }

  async function readTogether(
    name: string,
    read: () => Promise<Value>,
    isGood: (value: Value) => boolean,
  ): Promise<Value> {
    const as_of = asOf();
    const under_way = reading.get(name);
    if (under_way !== undefined && under_way.as_of === as_of) {
      const value = await under_way.value;
      if (isGood(value)) return value;
    }
    const value = readAnew(name, read, isGood);
    if (as_of === null) return value;
    const mine = { as_of, value };
    reading.set(name, mine);
    return value.finally(() => {
      if (reading.get(name) === mine) reading.delete(name);
    });
  }

  return {
    get(name, read, isGood) {
      const now = asOf();
      const found = now !== null && now === known_as_of ? known.get(name) : undefined;
      if (found !== undefined && isGood(found.value)) return found.value;
      return readTogether(name, read, isGood);
    },
  };
}
