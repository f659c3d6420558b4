/**
 * Chance of a story: streams of numbers that depend on nothing but the seed and their name, so that
 * what one part draws never changes what another one does.
 */
export type Chance = {
  /** In [0, 1). */
  next(): number;
  /** A whole number in [low, high]. */
  between(low: number, high: number): number;
  /** True with this probability. */
  is(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
};

/** mulberry32 over a hash of the seed and the stream's name. */
export function createChance(seed: number, stream: string): Chance {
  let state = hashText(stream, seed);
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    is: (probability) => next() < probability,
    pick: (from) => {
      const found = from[between(0, from.length - 1)];
      if (found === undefined) throw new Error('there is nothing to pick from');
      return found;
    },
  };
}

/** FNV-1a, begun at `start`: also the running hash of a trace. */
export function hashText(text: string, start: number): number {
  let hash = (start ^ 0x811c9dc5) >>> 0;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return hash;
}
