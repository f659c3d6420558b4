/**
 * `einsora request ls`: single requests to models, newest first: who answered, how it ended, how
 * long it took. Never a prompt or an answer.
 */
import type { ListedRequest } from '../contract/request-usage.ts';
import { formatAgo } from '../core/format.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import { msText } from './gateway-top.ts';
import type { Context } from './io.ts';
import { readNewest } from './newest.ts';
import { printJson, printTable, say } from './output.ts';

export type RequestLsOptions = {
  failed?: boolean;
  key?: string;
  model?: string;
  tenant?: string;
  limit?: number;
  json?: boolean;
};

const shown_rows = 50;
const headings = [
  ...['WHEN', 'MODEL', 'KEY', 'OUTCOME', 'TOKENS IN', 'OUT', 'FIRST', 'TOOK', 'BY', 'REQUEST'],
];

export async function listRequests(context: Context, options: RequestLsOptions): Promise<number> {
  const { failed, key, model, tenant, limit = shown_rows } = options;
  const query = { failed: failed === true ? 'true' : undefined, key, model, tenant };
  const client = openClient(context);
  const items = await readNewest<ListedRequest>(client, '/v1/requests', { query, limit });
  if (options.json) printJson(context, { items });
  else if (items.length === 0) say(context, 'Nothing was asked of a model that fits.');
  else {
    const now = context.io.clock.now();
    printTable(
      context,
      headings,
      items.map((one) => rowOf(one, now)),
    );
  }
  return exitCode('ok');
}

function rowOf(one: ListedRequest, now: number): string[] {
  const { code, is_estimated } = one;
  const about = is_estimated ? '~' : '';
  return [
    formatAgo(now - one.at),
    one.model || '(no model)',
    one.last_four === null ? '(a run)' : `…${one.last_four}`,
    code === null ? one.outcome : `${one.outcome} (${code})`,
    `${about}${one.prompt_tokens}`,
    `${about}${one.completion_tokens}`,
    msText(one.first_token_ms),
    msText(one.duration_ms),
    one.machine_name ?? one.placed_class ?? '',
    one.request_id,
  ];
}
