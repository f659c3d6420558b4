/**
 * `einsora usage --by key|model|guest`, and the second part of `--by user|day`: requests to
 * endpoints, with their tokens. Never a price.
 */
import type { RequestGroup, RequestUsagePage } from '../contract/request-usage.ts';
import type { Client } from './client.ts';
import { msText } from './gateway-top.ts';
import type { Context } from './io.ts';
import { printTable } from './output.ts';
import { readReportPages } from './report-pages.ts';

export type RequestReport = Omit<RequestUsagePage, 'next_cursor'>;
type Item = RequestUsagePage['items'][number];

export async function readRequestReport(
  client: Client,
  asked: {
    from: number | undefined;
    to: number | undefined;
    group_by: RequestGroup;
    tenant: string | undefined;
  },
): Promise<RequestReport> {
  const report = await readReportPages<RequestUsagePage>(client, '/v1/usage/requests', asked);
  if (asked.group_by !== 'day') report.items.sort((a, b) => b.requests - a.requests);
  return report;
}

export function printRequests(context: Context, { items, total, group_by }: RequestReport): void {
  const headings = [
    ...[group_by.toUpperCase(), 'REQUESTS', 'ANSWERED', 'REFUSED', 'CUT', 'LEFT'],
    ...['TOKENS IN', 'OUT', 'ESTIMATED', 'FIRST P50', 'P95'],
  ];
  const rows = [...items, { ...total, key: '', name: 'total' }].map(rowOf);
  printTable(context, headings, rows, 1);
}

function rowOf(row: Item): string[] {
  const counts = [row.requests, row.answered, row.refused, row.cut, row.client_left];
  const tokens = [row.prompt_tokens, row.completion_tokens];
  const share = row.requests === 0 ? 0 : (100 * row.estimated) / row.requests;
  const estimated = share > 0 && share < 1 ? '<1%' : `${Math.round(share)}%`;
  const firsts = [row.first_token_p50_ms, row.first_token_p95_ms].map(msText);
  return [row.name, ...[...counts, ...tokens].map(String), estimated, ...firsts];
}
