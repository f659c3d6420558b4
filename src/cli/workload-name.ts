/**
 * What a user calls a workload: near names where there is none of that name, and how one is shown.
 */
import type { Workload } from '../contract/workloads.ts';
import { formatAgo } from '../core/format.ts';
import { isSettled } from '../core/states.ts';
import { CliError } from './cli-error.ts';
import type { Client } from './client.ts';
import { replicasText } from './replica-view.ts';
import { nearNames } from './suggest.ts';

/** Does `work`; where there is no such workload, the failure says which names are near. */
export async function onWorkload<T>(
  client: Client,
  name: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CliError && error.exit === 'not_found') {
      const all = await client.list(false).catch(() => []);
      const near = nearNames(name, [...new Set(all.map((workload) => workload.name))]);
      if (near.length > 0) error.fix = `did you mean ${near.join(' or ')}?`;
    }
    throw error;
  }
}

/** The state in a word or two, honest about what has not been heard of. */
export function stateText(workload: Workload, now: number): string {
  const { state, park_cause, queue_place, intent } = workload;
  const ready = replicasText(workload);
  let text: string = state === 'running' && ready !== null ? `running, ${ready}` : state;
  if (state === 'queued' && queue_place !== null) text = `queued, place ${queue_place}`;
  if (state === 'stopped' && park_cause !== 'none' && park_cause !== 'user') {
    text = `stopped (${park_cause})`;
  }
  if (state === 'stopping' && intent === 'running') {
    const by_policy = park_cause === 'idle' || park_cause === 'preempted';
    text = by_policy ? `stopping (${park_cause})` : 'stopping, then starts';
  }
  if (workload.heard_of || (isSettled(state) && state !== 'running')) return text;
  const since = workload.last_heard_at;
  if (state === 'stopping' && workload.placement !== null) {
    text = `will stop when ${workload.placement.machine_name} is back`;
  }
  return since === null
    ? `${text}, never heard of`
    : `${text}, last heard of ${formatAgo(now - since)}`;
}

/** Where it runs and how well it is kept apart, or null where it is placed nowhere. */
export function whereText(workload: Workload): string | null {
  const { placement } = workload;
  if (placement === null) return null;
  return `${placement.machine_name} (${placement.driver}, ${placement.isolation} isolation)`;
}

/** The path of the API that an OpenAI client calls for chat. */
export function chatUrl(url: string): string {
  return `${url.replace(/\/+$/, '')}/chat/completions`;
}
