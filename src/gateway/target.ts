/**
 * Why a model's name leads nowhere, as a client is told, and who answered where it does not.
 *
 * Invariants: an endpoint that the key may not use gives the very answer of one that does not
 * exist; header values are printable ASCII, whatever a machine calls itself.
 */
import { limits } from '../contract/limits.ts';
import type { Details } from '../core/reasons.ts';
import type { Replica } from './endpoint.ts';
import type { Refusal } from './errors.ts';

/**
 * not_found: none, or not for this key; not_ready: it waits, loads or is between two runs;
 * endpoint_waking: it was stopped for being idle, and is started for this request;
 * wakes_limited: it would be, but the key woke enough of late (`retry_after_ms`);
 * endpoint_stopped: a person stopped it; endpoint_failed: it gave up. `details` may have `name`,
 * `state` and `why` (a sentence), all of which the client gets to read, save for not_found.
 */
export type TargetProblem =
  | 'not_found'
  | 'not_ready'
  | 'endpoint_waking'
  | 'wakes_limited'
  | 'endpoint_stopped'
  | 'endpoint_failed';

const loading_retry_s = 5;

export function refusalOfTarget(code: TargetProblem, details: Details, model: string): Refusal {
  const name = String(details.name ?? model);
  const why = details.why ? ` ${details.why}` : '';
  switch (code) {
    case 'not_found':
      return {
        status: 404,
        message: `The model \`${model.slice(0, 100)}\` does not exist or this key may not use it.`,
        code: 'model_not_found',
        param: 'model',
      };
    case 'not_ready': {
      const message = `${name} is ${details.state ?? 'not ready'}.${why} Try again soon.`;
      return { status: 503, message, code, retry_after_s: loading_retry_s };
    }
    case 'endpoint_waking': {
      const state = details.state ?? 'not ready';
      const message = `${name} was idle and is being woken: ${state}.${why} Try again soon.`;
      return { status: 503, message, code, retry_after_s: loading_retry_s };
    }
    case 'wakes_limited': {
      const retry_after_s = Math.max(1, Math.ceil(Number(details.retry_after_ms ?? 0) / 1000));
      const woke = `This key has woken ${limits.wakes_per_minute} endpoints in a minute`;
      const message = `${name} is idle. ${woke}, and may again in ${retry_after_s} s.`;
      return { status: 429, message, code, type: 'requests', retry_after_s };
    }
    case 'endpoint_stopped':
      return {
        status: 409,
        message: `${name} was stopped. einsora start ${name} starts it.`,
        code,
      };
    case 'endpoint_failed':
      return { status: 503, message: `${name} has failed.${why} See: einsora show ${name}`, code };
  }
}

/** The headers that say who answered. */
export const served_names = ['X-Einsora-Served-By', 'X-Einsora-Fallback'] as const;

export function servedBy(model: string, replica: Replica) {
  const { machine_name, placed_class, region } = replica;
  const machine = machine_name === null ? '' : `machine=${plain(machine_name)}; `;
  const where = `class=${plain(placed_class)}; region=${plain(region)}`;
  return {
    'X-Einsora-Served-By': `${machine}${where}; model=${plain(model)}`,
    'X-Einsora-Fallback': replica.fallback,
  };
}

function plain(text: string): string {
  return text.replace(/[^\x21-\x3a\x3c-\x7e]/g, '_');
}
