/**
 * Connections to the programs of runs, kept for each run as long as somebody has access to it.
 *
 * Invariants: a connection never serves another run than the one it was dialled for; a dial has a
 * deadline; when the last access to a run ends, what is idle is closed.
 */
import type { Duplex } from 'node:stream';
import { limits } from '../contract/limits.ts';
import { type RunKey, runName } from '../core/run.ts';
import { type Clock, withDeadline } from '../lib/clock.ts';
import { DialledAgent } from '../lib/dialled-agent.ts';

/** Opens a byte stream to a named port of a run. Rejects when it cannot. */
export type Dial = (run: RunKey, machine_id: string, port_name: string) => Promise<Duplex>;

export type Upstream = { agent: DialledAgent; dial(): Promise<Duplex> };

export type Upstreams = {
  of(run: RunKey, machine_id: string, port_name: string): Upstream;
  /** Nobody has access to this run any more. */
  retire(run: RunKey): void;
  close(): void;
};

const idle_connections = 64;

export function createUpstreams(dial: Dial, clock: Clock): Upstreams {
  const known = new Map<string, Upstream>();
  return {
    of(run, machine_id, port_name) {
      const name = runName(run);
      const found = known.get(name);
      if (found !== undefined) return found;
      const open = () => dialInTime(dial(run, machine_id, port_name), clock);
      const made = { agent: new DialledAgent(open, clock, idle_connections), dial: open };
      known.set(name, made);
      return made;
    },
    retire(run) {
      known.get(runName(run))?.agent.retire();
      known.delete(runName(run));
    },
    close() {
      for (const { agent } of known.values()) agent.retire();
      known.clear();
    },
  };
}

/** A stream that comes too late is closed, not left open. */
function dialInTime(dialled: Promise<Duplex>, clock: Clock): Promise<Duplex> {
  let is_late = false;
  dialled.then(
    (stream) => {
      if (is_late) stream.destroy();
    },
    () => {},
  );
  const seconds = limits.site_dial_ms / 1000;
  return withDeadline(clock, limits.site_dial_ms, `no answer for ${seconds} s`, dialled).catch(
    (error) => {
      is_late = true;
      throw error;
    },
  );
}
