/**
 * Rows of a list that comes newest first, read page by page: so many, and no more pages than that.
 *
 * Invariants: a page that is empty and not the last is gone on from; after `page_limit` pages the
 * rest is left out.
 */
import type { Client, Page } from './client.ts';

export type QueryParts = Record<string, string | number | undefined>;

const page_rows = 200;
/** Pages looked through for what is filtered for before the rest is left out. */
const page_limit = 500;

export async function readNewest<One>(
  client: Client,
  path: string,
  { query, limit }: { query: QueryParts; limit: number },
): Promise<One[]> {
  const items: One[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < page_limit && items.length < limit; page += 1) {
    const rows = Math.min(page_rows, limit - items.length);
    const asked = withQuery(path, { ...query, cursor, limit: rows });
    const found = await client.call<Page<One>>('GET', asked);
    items.push(...found.items);
    if (found.next_cursor === null) break;
    cursor = found.next_cursor;
  }
  return items;
}

export function withQuery(path: string, query: QueryParts): string {
  const parts = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return parts.length === 0 ? path : `${path}?${parts.join('&')}`;
}
