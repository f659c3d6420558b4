// Loaded into the real program by NODE_OPTIONS: its wall clock is off by what a file says, as if
// somebody had set the machine's clock. The monotonic clock is left alone, as it is by that.
import { readFileSync } from 'node:fs';

const path = process.env.EINSORA_TEST_CLOCK ?? '';
const real = Date.now;
const RealDate = Date;
let offset = 0;
let looked_at = -Infinity;

function now() {
  const monotonic = performance.now();
  if (monotonic - looked_at > 5) {
    looked_at = monotonic;
    try {
      offset = Number(readFileSync(path, 'utf8'));
    } catch {
      offset = 0;
    }
  }
  return real() + offset;
}

globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length === 0 ? [now()] : args));
  }
  static now() {
    return now();
  }
};
