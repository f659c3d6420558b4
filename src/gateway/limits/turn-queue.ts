/**
 * A queue that is fair between keys: round robin over them, first come first served inside one.
 *
 * Invariants: a key that is given a turn is the last of all that wait now to get the next; a key
 * that nothing of waits any more is not remembered.
 */
export type TurnQueue<Waiter> = {
  size(): number;
  /** How many wait, by key. */
  waiting(): Map<string, number>;
  add(key_id: string, waiter: Waiter): void;
  /** Whose turn it is. */
  first(): Waiter | undefined;
  /** Takes whose turn it is out. */
  next(): Waiter | undefined;
  /** Takes one out that gave up. */
  remove(key_id: string, waiter: Waiter): void;
  /**
   * Makes room for one more of a key: takes the last out of the key that has most of them, unless
   * that would leave it with fewer than the other one then has.
   */
  displace(for_key_id: string): Waiter | undefined;
};

export function createTurnQueue<Waiter>(): TurnQueue<Waiter> {
  /** In the order in which the keys get their turns. */
  const keys = new Map<string, Waiter[]>();
  let size = 0;

  function longest(): [string, Waiter[]] | undefined {
    let found: [string, Waiter[]] | undefined;
    for (const one of keys) if (one[1].length > (found?.[1].length ?? 0)) found = one;
    return found;
  }

  function taken(key_id: string, line: Waiter[], waiter: Waiter | undefined): Waiter | undefined {
    if (waiter === undefined) return undefined;
    size -= 1;
    if (line.length === 0) keys.delete(key_id);
    return waiter;
  }

  return {
    size: () => size,
    waiting: () => new Map([...keys].map(([key_id, line]) => [key_id, line.length])),
    add(key_id, waiter) {
      const line = keys.get(key_id);
      if (line === undefined) keys.set(key_id, [waiter]);
      else line.push(waiter);
      size += 1;
    },
    first: () => keys.values().next().value?.[0],
    next() {
      const [first] = keys;
      if (first === undefined) return undefined;
      const [key_id, line] = first;
      keys.delete(key_id);
      keys.set(key_id, line);
      return taken(key_id, line, line.shift());
    },
    remove(key_id, waiter) {
      const line = keys.get(key_id);
      const index = line?.indexOf(waiter) ?? -1;
      if (line !== undefined && index >= 0) taken(key_id, line, line.splice(index, 1)[0]);
    },
    displace(for_key_id) {
      const most = longest();
      const own = keys.get(for_key_id)?.length ?? 0;
      if (most === undefined || most[1].length <= own + 1) return undefined;
      return taken(most[0], most[1], most[1].pop());
    },
  };
}
