/**
 * Asks one replica after the other until one has answered.
 *
 * Invariants: each is asked once at most, and looked up anew each time; none after one that
 * answered in part to the client, none where the client is to blame; after one that was lost in the
 * middle of its answer one more at most; what is told in the end is what went wrong first, unless
 * another says that waiting helps.
 */
import { runName } from '../core/run.ts';
import type { Balancer, Outing, OutingEnd } from './balance/balancer.ts';
import type { Endpoint, Replica } from './endpoint.ts';
import { blamesClient } from './engines/refusal.ts';
import { type Refusal, refusals } from './errors.ts';
import { type Ending, failedBy } from './pump.ts';

export type Attempted = {
  ending: Ending;
  /** Part of an answer had come from it. */
  had_content: boolean;
  is_unreachable: boolean;
};

export type Attempts = {
  endpoint: Endpoint;
  balancer: Balancer;
  /** Where requests that begin alike go; null: anywhere. Asked where there is a choice. */
  affinity(): string | null;
  attempt(endpoint: Endpoint, replica: Replica, outing: Outing): Promise<Attempted>;
  /** The endpoint as it is now; null where nothing else may be tried. */
  again(): Promise<Endpoint | null>;
};

export async function tryReplicas(attempts: Attempts): Promise<Ending> {
  const { balancer, affinity, attempt, again } = attempts;
  const tried = new Set<string>();
  const failures: Refusal[] = [];
  let lost = 0;
  let endpoint: Endpoint | null = attempts.endpoint;
  while (endpoint !== null) {
    const { replicas } = endpoint;
    const choice = { not: tried, affinity: replicas.length > 1 ? affinity() : null };
    const replica = balancer.choose(replicas, choice);
    if (replica === null) break;
    tried.add(runName(replica.run));
    const outing = balancer.begin(replica.run);
    let how: OutingEnd = 'left';
    let code: string | undefined;
    try {
      const attempted = await attempt(endpoint, replica, outing);
      const { ending } = attempted;
      how = outingEnd(attempted);
      if (ending.is !== 'failed') return ending;
      failures.push(ending.refusal);
      code = ending.refusal.code ?? undefined;
      if (blamesClient(ending.refusal)) return ending;
      if (attempted.had_content) lost += 1;
    } finally {
      outing.ended(how, code);
    }
    endpoint = lost > 1 ? null : await again();
  }
  return failedBy(causeOf(failures));
}

function outingEnd({ ending, is_unreachable }: Attempted): OutingEnd {
  if (ending.is === 'whole') return 'answered';
  if (ending.is === 'stopped') return 'left';
  if (is_unreachable) return 'unreachable';
  return blamesClient(ending.refusal) ? 'refused' : 'failed';
}

function causeOf(failures: readonly Refusal[]): Refusal {
  const waiting = failures.find(({ retry_after_s }) => retry_after_s !== undefined);
  return waiting ?? failures[0] ?? refusals.engineUnreachable;
}
