/**
 * How long things took lately, to guess how long the next one takes.
 *
 * Invariants: the newest weighs an eighth; before anything is known it is a second.
 */
export type Pace = { took(ms: number): void; mean_ms(): number };

const first_guess_ms = 1000;
const weight = 1 / 8;

export function createPace(): Pace {
  let mean: number | null = null;
  return {
    took(ms) {
      mean = mean === null ? ms : mean + (ms - mean) * weight;
    },
    mean_ms: () => mean ?? first_guess_ms,
  };
}
