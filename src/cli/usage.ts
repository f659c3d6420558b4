/**
 * `einsora usage`: who used how much for how long, and who asked which model how often. Never a
 * price.
 */
import type { UsagePage } from '../contract/usage.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { momentOf, momentText } from './moment.ts';
import { printJson, printTable, say } from './output.ts';
import { readReportPages } from './report-pages.ts';
import { printRequests, type RequestReport, readRequestReport } from './request-usage.ts';

export type UsageOptions = {
  from?: string;
  to?: string;
  by?: UsagePage['group_by'] | 'key' | 'model' | 'guest';
  tenant?: string;
  json?: boolean;
};

type Report = Omit<UsagePage, 'next_cursor'>;
type Item = UsagePage['items'][number];

const hour_ms = 3600_000;

export async function usage(context: Context, options: UsageOptions): Promise<number> {
  const { by = 'user' } = options;
  const client = openClient(context);
  const asked = windowOf(context, options);
  if (by === 'key' || by === 'model' || by === 'guest') {
    const requests = await readRequestReport(client, { ...asked, group_by: by });
    if (options.json) printJson(context, requests);
    else showRequests(context, requests, 'Nothing was asked of an endpoint.');
    return exitCode('ok');
  }
  const report = await readReport(client, asked, by);
  const of_requests = by === 'user' || by === 'day' ? by : null;
  const requests =
    of_requests === null
      ? null
      : await readRequestReport(client, { ...asked, group_by: of_requests });
  if (options.json) {
    printJson(context, { ...report, ...(requests === null ? {} : { requests }) });
    return exitCode('ok');
  }
  sayWhose(context, report);
  if (report.items.length === 0) say(context, 'Nothing was used.');
  else printReport(context, report);
  if (requests !== null && requests.items.length > 0) showRequests(context, requests, '');
  return exitCode('ok');
}

function windowOf(context: Context, { from, to, tenant }: UsageOptions) {
  const now = context.io.clock.now();
  const moment = (text?: string) => (text === undefined ? undefined : momentOf(text, now));
  return { from: moment(from), to: moment(to), tenant };
}

async function readReport(
  client: Client,
  asked: ReturnType<typeof windowOf>,
  by: UsagePage['group_by'],
): Promise<Report> {
  const report = await readReportPages<UsagePage>(client, '/v1/usage', { ...asked, group_by: by });
  return { ...report, items: inOrder(report.items, by) };
}

/** Days are whole ones: what is kept are sums of days. */
function showRequests(context: Context, report: RequestReport, nothing: string): void {
  const day = (ms: number) => momentText(ms).slice(0, 10);
  const { tenant, from, to, items } = report;
  say(context, `Requests of ${tenant} to endpoints, ${day(from)} to ${day(to - 1)} (UTC):`);
  if (items.length === 0) say(context, nothing);
  else printRequests(context, report);
}

/** Days as they came; of all else what was used most comes first. */
function inOrder(items: Item[], by: UsagePage['group_by']): Item[] {
  if (by === 'day') return items;
  return items.sort((a, b) => b.metered_ms - a.metered_ms || b.held_ms - a.held_ms);
}

function sayWhose(context: Context, { tenant, from, to }: Report): void {
  const minutes = (ms: number) => momentText(ms).slice(0, 16);
  say(context, `Usage of ${tenant} from ${minutes(from)} to ${minutes(to)} (UTC), in hours:`);
}

function printReport(context: Context, { items, total, group_by }: Report): void {
  const headings = [group_by.toUpperCase(), 'METERED', 'HELD', 'CPU', 'GPU', 'MEMORY (GiB)'];
  const digits = total.held_ms >= hour_ms ? 2 : 4;
  const rows = [...items, { ...total, key: '', name: 'total' }].map((row) => {
    const lengths = [row.metered_ms / hour_ms, row.held_ms / hour_ms];
    const amounts = [row.cpu_hours, row.gpu_hours, row.memory_gib_hours];
    return [row.name, ...[...lengths, ...amounts].map((hours) => figure(hours, digits))];
  });
  printTable(context, headings, rows, 1);
}

/** 1.5 gives "1.50"; what is too little to show is not shown as nothing. */
function figure(hours: number, digits: number): string {
  const least = 10 ** -digits;
  if (hours > 0 && hours < least / 2) return `<${least}`;
  return hours === 0 ? '0' : hours.toFixed(digits);
}
