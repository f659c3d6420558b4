/**
 * A process that plays its share of the seeds, one line of JSON for each, and one more for the
 * shortened form of the first that fails.
 *
 * Called by `scripts/sim.ts`: `worker.ts SHARE OF OPTIONS…`.
 */
import { modeOf, parseSim, replayLine } from './options.ts';
import { type Played, play } from './play.ts';
import { shrink } from './shrink.ts';

export type Line = {
  seed: number;
  hash: string;
  virtual_ms: number;
  events: number;
  violation: Played['violation'];
  replay: string;
  /** The shortened replay, and how much of the schedule it has left. */
  short: { replay: string; items: number } | null;
};

const [share = '0', of = '1', ...words] = process.argv.slice(2);
const options = parseSim(words);
const { first, count, hours, machines, keep, mutant } = options;
const read = options.verbose ? (line: string) => void process.stderr.write(`${line}\n`) : null;
let is_shrunk = keep !== null || options.verbose || mutant !== null;

for (let seed = first + Number(share); seed < first + count; seed += Number(of)) {
  const mode = modeOf(seed, options.mode);
  const played = await play({ seed, hours, machines, mode, keep, read });
  say(played, null);
  if (played.violation === null) continue;
  // Of real failures one is shortened, for it takes long.
  if (!is_shrunk) say(played, await shrink(played));
  is_shrunk = true;
  if (mutant !== null) break; // a mutant is caught by its first seed
}
process.exit(0);

function say(played: Played, short: Played | null): void {
  const { hash, virtual_ms, events, violation } = played;
  const replay = replayLine(played.options, mutant);
  const line: Line = {
    ...{ seed: played.options.seed, hash, virtual_ms, events, violation, replay },
    short:
      short === null
        ? null
        : {
            replay: replayLine(short.options, mutant),
            items: short.options.keep?.length ?? short.items,
          },
  };
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
