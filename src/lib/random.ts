/**
 * Randomness, as a dependency: the only place that asks the system for it.
 */
import { randomBytes } from 'node:crypto';

export type Random = {
  /** `count` unpredictable bytes. */
  bytes(count: number): Uint8Array;
};

export const systemRandom: Random = openSystemRandom();

/**
 * The system is asked for many bytes at once, for each asking takes tens of microseconds. What was
 * given away is wiped here, so that no secret stays behind.
 */
function openSystemRandom(pool_bytes = 4096): Random {
  let pool = randomBytes(0);
  let used = 0;
  return {
    bytes(count) {
      if (count > pool_bytes / 8) return randomBytes(count);
      if (used + count > pool.length) {
        pool = randomBytes(pool_bytes);
        used = 0;
      }
      const given = new Uint8Array(count);
      // One by one: so few that to call for it costs more.
      for (let at = 0; at < count; at += 1) {
        given[at] = pool[used + at] ?? 0;
        pool[used + at] = 0;
      }
      used += count;
      return given;
    },
  };
}

/** A uniform number in [0, 1), for jitter and tie-breaks. */
export function fraction(random: Random): number {
  const view = new DataView(Uint8Array.from(random.bytes(4)).buffer);
  return view.getUint32(0) / 2 ** 32;
}

/** A repeatable Random for tests (mulberry32): the same seed gives the same bytes. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 24;
  };
  return { bytes: (count) => Uint8Array.from({ length: count }, next) };
}
