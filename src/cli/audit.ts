/**
 * `einsora audit ls` and `erase`: the activity log, who did what under which request.
 */
import type { Activity } from '../contract/activity.ts';
import { formatAgo } from '../core/format.ts';
import { type Client, openClient, type Page } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { momentOf } from './moment.ts';
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
const page_rows = 200;
/** Pages looked through for what is filtered for before the rest is left out. */
const page_limit = 500;

export async function listActivity(context: Context, options: AuditLsOptions): Promise<number> {
  const now = context.io.clock.now();
  const { user, route, target, since, until, tenant, limit = shown_rows } = options;
  const moment = (text?: string) => (text === undefined ? undefined : momentOf(text, now));
  const query = { user, route, target, tenant, since: moment(since), until: moment(until) };
  const items = await readRows(openClient(context), query, limit);
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

type Query = Record<string, string | number | undefined>;

export function withQuery(path: string, query: Query): string {
  const parts = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return parts.length === 0 ? path : `${path}?${parts.join('&')}`;
}

async function readRows(client: Client, query: Query, limit: number): Promise<Activity[]> {
  const items: Activity[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < page_limit && items.length < limit; page += 1) {
    const rows = Math.min(page_rows, limit - items.length);
    const path = withQuery('/v1/activity', { ...query, cursor, limit: rows });
    const found = await client.call<Page<Activity>>('GET', path);
    items.push(...found.items);
    if (found.next_cursor === null) break;
    cursor = found.next_cursor;
  }
  return items;
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
