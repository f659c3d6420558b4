/**
 * A report over a window of time, read page by page to its end.
 *
 * Invariants: every page is of the window of the first, so that all of them show the same; after
 * `page_limit` pages the rest is left out.
 */

import type { Client } from './client.ts';
import { withQuery } from './newest.ts';

type Page = { from: number; to: number; items: unknown[]; next_cursor: string | null };

const page_rows = 200;
const page_limit = 100;

export async function readReportPages<One extends Page>(
  client: Client,
  path: string,
  asked: Record<string, string | number | undefined>,
): Promise<Omit<One, 'next_cursor'>> {
  const read = (more: object) =>
    client.call<One>('GET', withQuery(path, { ...asked, limit: page_rows, ...more }));
  const { next_cursor, ...report } = await read({});
  let cursor: string | null = next_cursor;
  for (let page = 1; page < page_limit && cursor !== null; page += 1) {
    const next = await read({ from: report.from, to: report.to, cursor });
    report.items.push(...next.items);
    cursor = next.next_cursor;
  }
  return report;
}
