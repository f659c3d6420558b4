/**
 * What all parts of a story share: its time, its chance, its trace, and the place to say that an
 * invariant does not hold.
 */
import { limits } from '../../src/contract/limits.ts';
import type { Log } from '../../src/lib/log.ts';
import { type Chance, createChance, hashText } from './chance.ts';
import { createVirtualTime, type VirtualTime } from './virtual-time.ts';

/**
 * In most stories, for a poll that tells nothing new is most of what a story costs. Still one that
 * is lost is followed by another within the lease.
 */
const long_hold_ms = 45_000;

export type Violation = { invariant: string; message: string; at: number };

export type Story = {
  readonly seed: number;
  readonly time: VirtualTime;
  /** For how long the control plane holds polls. */
  readonly hold_ms: number;
  chance(stream: string): Chance;
  /** A line of what happened: hashed always, kept where somebody reads along. */
  tell(who: string, what: string): void;
  /** The first one ends the story. */
  violate(invariant: string, message: string): void;
  violation(): Violation | null;
  /** Of the whole trace so far. */
  hash(): string;
  log(who: string): Log;
};

export function createStory(seed: number, read: ((line: string) => void) | null): Story {
  const time = createVirtualTime();
  let violation: Violation | null = null;
  let hash = seed >>> 0;
  let lines = 0;

  function tell(who: string, what: string): void {
    lines += 1;
    hash = hashText(what, hashText(who, hash ^ time.now()));
    read?.(`${clockFace(time.now())}  ${who.padEnd(14)} ${what}`);
  }

  function log(who: string): Log {
    const quiet = () => {};
    const say = (level: string) => (fields: object, message: string) =>
      read?.(
        `${clockFace(time.now())}  ${who.padEnd(14)} ${level}: ${message} ${JSON.stringify(fields)}`,
      );
    const made: Log =
      read === null
        ? { debug: quiet, info: quiet, warn: quiet, error: quiet, child: () => made }
        : {
            ...{ debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') },
            child: () => made,
          };
    return made;
  }

  return {
    seed,
    time,
    hold_ms: createChance(seed, 'hold').is(0.1) ? limits.sync_hold_ms : long_hold_ms,
    tell,
    log,
    chance: (stream) => createChance(seed, stream),
    violate(invariant, message) {
      violation ??= { invariant, message, at: time.now() };
      tell('VIOLATION', `${invariant}: ${message}`);
    },
    violation: () => violation,
    hash: () => `${lines}-${hash.toString(16).padStart(8, '0')}`,
  };
}

/** 01:02:03.004 */
export function clockFace(ms: number): string {
  const part = (value: number, digits: number) => String(Math.floor(value)).padStart(digits, '0');
  const hours = part(ms / 3_600_000, 2);
  const minutes = part((ms / 60_000) % 60, 2);
  return `${hours}:${minutes}:${part((ms / 1000) % 60, 2)}.${part(ms % 1000, 3)}`;
}
