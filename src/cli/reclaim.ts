/**
 * `einsora machine reclaim` and `release`: takes a machine back from those who run something there.
 */
import type { Machine } from '../contract/machines.ts';
import type { ReclaimRequest } from '../contract/reclaim.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { own } from './machine-care.ts';
import { momentAhead } from './moment.ts';
import { oneLine, printData, printJson } from './output.ts';
import { reclaimText } from './reclaim-view.ts';

export type ReclaimOptions = {
  now?: boolean;
  at?: string;
  in?: number;
  whenActive?: boolean;
  grace?: number;
  until?: string;
  all?: boolean;
  json?: boolean;
};

export async function reclaim(
  context: Context,
  name: string | undefined,
  options: ReclaimOptions,
): Promise<number> {
  const body = requestOf(options, context.io.clock.now());
  return call(context, name, 'reclaim', body, options);
}

export function release(
  context: Context,
  name: string | undefined,
  options: { json?: boolean },
): Promise<number> {
  return call(context, name, 'release', undefined, options);
}

function requestOf(options: ReclaimOptions, now: number): ReclaimRequest {
  const { at, until, grace, whenActive } = options;
  const grace_ms = options.now ? 0 : grace;
  return {
    ...(at === undefined ? {} : { at: momentAhead(at, now) }),
    ...(options.in === undefined ? {} : { in_ms: Math.round(options.in) }),
    ...(whenActive ? { when_active: true } : {}),
    ...(grace_ms === undefined ? {} : { grace_ms: Math.round(grace_ms) }),
    ...(until === undefined ? {} : { until: momentAhead(until, now) }),
    scope: options.all ? 'all' : 'guests',
  };
}

async function call(
  context: Context,
  name: string | undefined,
  what: 'reclaim' | 'release',
  body: ReclaimRequest | undefined,
  { json }: { json?: boolean },
): Promise<number> {
  const { client, path } = await own(context, name);
  const asked = body === undefined ? {} : { body };
  const machine = await client.call<Machine>('POST', `${path}/${what}`, asked);
  if (json) printJson(context, machine);
  else printData(context, sentenceOf(machine, context.io.clock.now()));
  return exitCode('ok');
}

function sentenceOf({ name, reclaim: taken }: Machine, now: number): string {
  const called = oneLine(name);
  if (taken === null) return `${called} is not taken back: guests may come.`;
  const whom = taken.scope === 'all' ? 'everybody, you included' : 'guests; your own stay';
  return `${called}: ${reclaimText(taken, now)} (${whom}).`;
}
