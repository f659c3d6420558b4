/**
 * The way between two parties: each message is carried out by its fate, which is to be lost, to be
 * late, to come twice, or to come as it should.
 *
 * Invariants: what a message does is drawn from the link's own chance; a cut loses everything of
 * one direction; a message that is late may be overtaken.
 */
import type { Chance } from './chance.ts';
import type { VirtualTime } from './virtual-time.ts';

export type Way = 'up' | 'down';

/** Probabilities of one message. */
export type Weather = { drop: number; double: number; late: number };

export const fair: Weather = { drop: 0, double: 0, late: 0 };

export type Link = {
  send(way: Way, deliver: () => void): void;
  weather: Weather;
  cut: Record<Way, boolean>;
};

const late_ms = 120_000;

export function createLink(time: VirtualTime, chance: Chance): Link {
  const link: Link = {
    weather: fair,
    cut: { up: false, down: false },
    send(way, deliver) {
      const { drop, double, late } = link.weather;
      if (link.cut[way] || chance.is(drop)) return;
      const copies = chance.is(double) ? 2 : 1;
      for (let copy = 0; copy < copies; copy += 1) {
        const delay = chance.is(late) ? chance.between(100, late_ms) : chance.between(1, 15);
        time.at(time.now() + delay, deliver);
      }
    },
  };
  return link;
}
