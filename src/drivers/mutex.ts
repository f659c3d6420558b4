/**
 * One thing at a time for each name.
 *
 * Invariants: work under one name never overlaps and keeps its order; a failure does not hold up
 * what follows; a name without work takes no memory.
 */
export type KeyedMutex = {
  run<T>(name: string, work: () => Promise<T>): Promise<T>;
};

export function createKeyedMutex(): KeyedMutex {
  const tails = new Map<string, Promise<unknown>>();
  return {
    async run(name, work) {
      const result = (tails.get(name) ?? Promise.resolve()).then(work);
      const tail = result.catch(() => {});
      tails.set(name, tail);
      try {
        return await result;
      } finally {
        if (tails.get(name) === tail) tails.delete(name);
      }
    },
  };
}
