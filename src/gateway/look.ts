/**
 * Looks again and again at what open answers rest on: their keys, and the endpoints that give them.
 *
 * Invariants: an answer whose key opens nothing any more, or whose endpoint was stopped, is stopped
 * within a second of it, wherever that was decided; what is short is never looked at; nothing is
 * read while nothing is open. A look that fails is left to the next one.
 */
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { Endpoint, FoundEndpoint, Soon } from './endpoint.ts';
import { type GatewayKey, isUsable } from './key.ts';
import { createStop, type Stop, type StopReason, type Waiting } from './stop.ts';

export type LookDeps = {
  findKey(key_digest: string): Soon<GatewayKey | null>;
  findEndpoint(key: GatewayKey, model: string, stop: Waiting): Soon<FoundEndpoint>;
  clock: Pick<Clock, 'now' | 'monotonic' | 'after'>;
  log: Log;
};

/** What an open answer rests on. */
export type Resting = {
  key_digest: string;
  model: string;
  stop: Stop;
  /** Is told the endpoint as it stands now. */
  see(endpoint: Endpoint): void;
};

export type Look = {
  /** It is looked at until the returned function is called. */
  at(resting: Resting): () => void;
  close(): void;
};

export function createLook(deps: LookDeps): Look {
  const { clock, log } = deps;
  const open = new Map<Resting, number>();
  let cancel: (() => void) | null = null;

  async function round(): Promise<void> {
    const before = clock.monotonic() - limits.gateway_look_ms;
    const old = [...open].flatMap(([resting, since]) => (since <= before ? [resting] : []));
    for (const group of groupsOf(old)) {
      const { reason, endpoint } = await lookAt(deps, group[0]);
      for (const { stop, see } of group) {
        if (reason !== null) stop.now(reason);
        if (endpoint !== null) see(endpoint);
      }
    }
  }

  function later(): void {
    cancel = clock.after(limits.gateway_look_ms, () => {
      round()
        .catch((error) => log.warn({ problem: describeError(error) }, 'answers were not looked at'))
        .finally(() => {
          if (cancel !== null && open.size > 0) later();
          else cancel = null;
        });
    });
  }

  return {
    at(resting) {
      open.set(resting, clock.monotonic());
      if (cancel === null) later();
      return () => void open.delete(resting);
    },
    close() {
      cancel?.();
      cancel = null;
    },
  };
}

type Group = [Resting, ...Resting[]];

/** Those that rest on the same key and model are looked at together. */
function groupsOf(all: readonly Resting[]): Group[] {
  const groups = new Map<string, Group>();
  for (const resting of all) {
    const name = `${resting.key_digest} ${resting.model}`;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [resting]);
    else group.push(resting);
  }
  return [...groups.values()];
}

const no_wait = createStop();
no_wait.now('client_left');

/** Why it has to stop, if it has to, and the endpoint where it answers. */
type Looked = { reason: StopReason | null; endpoint: Endpoint | null };

async function lookAt(deps: LookDeps, resting: Resting): Promise<Looked> {
  const because = (reason: StopReason | null): Looked => ({ reason, endpoint: null });
  const key = await deps.findKey(resting.key_digest);
  if (!isUsable(key, deps.clock.now())) return because('key_revoked');
  const found = await deps.findEndpoint(key, resting.model, no_wait);
  if (found.ok) return { reason: null, endpoint: found.endpoint };
  if (found.code === 'endpoint_stopped') return because('endpoint_stopped');
  return because(found.code === 'not_found' ? 'endpoint_gone' : null);
}
