/**
 * `einsora audit ls` and `erase`: the activity log, who did what under which request.
 */
import type { Activity } from '../contract/activity.ts';
import { formatAgo } from '../core/format.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { momentOf } from './moment.ts';
import { readNewest, withQuery } from './newest.ts';
import { printJson, printTable, say } from './output.ts';

export type AuditLsOptions = {
  user?: string;
  route?: string;
  target?: string;
  since?: string;
  until?: string;
  tenant?: string;
  limit?: number;
  json?: boolean;
};

const shown_rows = 50;

export async function listActivity(context: Context, options: AuditLsOptions): Promise<number> {
  const now = context.io.clock.now();
  const { user, route, target, since, until, tenant, limit = shown_rows } = options;
  const moment = (text?: string) => (text === undefined ? undefined : momentOf(text, now));
  const query = { user, route, target, tenant, since: moment(since), until: moment(until) };
  const client = openClient(context);
  const items = await readNewest<Activity>(client, '/v1/activity', { query, limit });
  if (options.json) printJson(context, { items });
  else if (items.length === 0) say(context, 'Nothing was done that fits.');
  else printActivity(context, items, now);
  return exitCode('ok');
}

/** A table of rows, with the request of each where they are of several. */
export function printActivity(
  context: Context,
  items: Activity[],
  now: number,
  with_requests = true,
): void {
  const headings = ['WHEN', 'BY', 'VIA', 'ACTION', 'ON', 'OUTCOME'];
  const rows = items.map((item) => [
    formatAgo(now - item.at),
    actorText(item.actor),
    item.via,
    item.route,
    item.target ?? '',
    item.details.more === undefined ? item.outcome : `${item.outcome} (${item.details.more} more)`,
    ...(with_requests ? [item.request_id] : []),
  ]);
  printTable(context, with_requests ? [...headings, 'REQUEST'] : headings, rows);
}

export function actorText(actor: string | null): string {
  return actor === null ? '(erased)' : actor.replace(/^user:/, '');
}

export async function eraseUser(
  context: Context,
  user: string,
  options: { tenant?: string; json?: boolean },
): Promise<number> {
  const path = withQuery(`/v1/activity/users/${encodeURIComponent(user)}`, {
    tenant: options.tenant,
  });
  const { rows } = await openClient(context).call<{ rows: number }>('DELETE', path);
  if (options.json) printJson(context, { user, rows });
  else say(context, `${rows} rows no longer say who ${user} was. The log still proves itself.`);
  return exitCode('ok');
}
