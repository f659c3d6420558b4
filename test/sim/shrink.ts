/**
 * Makes a failing story shorter: leaves out parts of its schedule for as long as the same invariant
 * is still violated (delta debugging), and the time after the violation.
 *
 * Invariants: what comes out fails; it is bounded in how often it plays.
 */
import { type Played, type PlayOptions, play } from './play.ts';

const plays_limit = 120;

export async function shrink(failed: Played): Promise<Played> {
  const invariant = failed.violation?.invariant;
  let best = failed;
  let left = plays_limit;

  async function stillFails(options: PlayOptions): Promise<boolean> {
    if (left <= 0) return false;
    left -= 1;
    const played = await play(options);
    if (played.violation?.invariant !== invariant) return false;
    best = played;
    return true;
  }

  let keep = failed.options.keep ?? Array.from({ length: failed.items }, (_, number) => number);
  for (let parts = 2; keep.length > 1 && left > 0; ) {
    const size = Math.ceil(keep.length / parts);
    let is_shorter = false;
    for (let from = 0; from < keep.length && !is_shorter; from += size) {
      const rest = [...keep.slice(0, from), ...keep.slice(from + size)];
      if (await stillFails({ ...failed.options, keep: rest })) {
        keep = rest;
        is_shorter = true;
      }
    }
    if (is_shorter) parts = Math.max(2, parts - 1);
    else if (size === 1) break;
    else parts = Math.min(keep.length, parts * 2);
  }
  return best;
}
