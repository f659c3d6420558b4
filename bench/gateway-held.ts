/**
 * Streams that are open at once: each gets its first token, waits with all the others, and then its
 * end.
 *
 * Invariants: none may be refused, cut or left without its end; what the gateway holds in memory is
 * read before the first and while all are open, of a process that did nothing else.
 */
import { systemClock, withDeadline } from '../src/lib/clock.ts';
import type { Child } from './child.ts';
import { rounded } from './figures.ts';
import { type Asked, type GatewayLane, openLane } from './gateway-load.ts';
import { residentMb } from './served-program.ts';

const opened_at_once = 100;
const patience_ms = 120_000;

export type Held = {
  ok: boolean;
  /** What went wrong. */
  problem: string | null;
  rss_mb: number | null;
  rss_kb_per_stream: number | null;
};

export async function holdStreams(
  gateway: Child<Asked>,
  engine: Asked,
  count: number,
): Promise<Held> {
  const before_mb = residentMb(gateway.pid) ?? Number.NaN;
  const lanes: GatewayLane[] = [];
  const within = <T>(work: Promise<T>) =>
    withDeadline(systemClock, patience_ms, 'streams that were open did not go on', work);
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
    const held_mb = residentMb(gateway.pid) ?? Number.NaN;
    await fetch(`http://127.0.0.1:${engine.port}/release`);
    await within(Promise.all(whole));
    const rss_kb_per_stream = rounded(((held_mb - before_mb) * 1024) / count, 1);
    return { ok: true, problem: null, rss_mb: rounded(held_mb, 0), rss_kb_per_stream };
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    return { ok: false, problem, rss_mb: null, rss_kb_per_stream: null };
  } finally {
    for (const lane of lanes) lane.close();
  }
}
