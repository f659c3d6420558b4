/**
 * Streams that are open at once: each gets its first token, waits with all the others, and then its
 * end.
 *
 * Invariants: none may be refused, cut or left without its end; what the gateway holds in memory is
 * read while all are open.
 */
import { systemClock, withDeadline } from '../src/lib/clock.ts';
import type { Child } from './child.ts';
import { rounded } from './figures.ts';
import { type Asked, type GatewayLane, openLane } from './gateway-load.ts';
import { residentMb } from './served-program.ts';

const opened_at_once = 100;
const patience_ms = 120_000;

export async function holdStreams(
  gateway: Child<Asked>,
  engine: Asked,
  count: number,
): Promise<Record<string, unknown>> {
  const lanes: GatewayLane[] = [];
  const within = <T>(work: Promise<T>) =>
    withDeadline(systemClock, patience_ms, 'streams that were open did not go on', work);
  const ok = `streams_held_${count}_ok`;
  try {
    const whole: Promise<void>[] = [];
    while (lanes.length < count) {
      const more = await Promise.all(
        Array.from({ length: Math.min(opened_at_once, count - lanes.length) }, () =>
          openLane(gateway.asked, 'held'),
        ),
      );
      lanes.push(...more);
      const asked = more.map((lane) => lane.ask());
      whole.push(...asked);
      await within(Promise.race([Promise.all(more.map((one) => one.first())), Promise.all(asked)]));
    }
    const rss_mb = rounded(residentMb(gateway.pid) ?? Number.NaN, 0);
    await fetch(`http://127.0.0.1:${engine.port}/release`);
    await within(Promise.all(whole));
    return { [ok]: true, held: null, rss_mb_held: rss_mb };
  } catch (error) {
    const held = error instanceof Error ? error.message : String(error);
    return { [ok]: false, held, rss_mb_held: null };
  } finally {
    for (const { socket } of lanes) socket.destroy();
  }
}
