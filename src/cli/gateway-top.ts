/**
 * `einsora gateway top`: what the gateway does now, by model and by key; on a terminal it stays,
 * and follows; elsewhere it prints once.
 */
import type { GatewayTop, GatewayTopRow } from '../contract/gateway-top.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { withQuery } from './newest.ts';
import { printJson, printTable, say } from './output.ts';
import { follow, type ScreenTable, staysOn } from './screen.ts';

export type GatewayTopOptions = { json?: boolean; once?: boolean; tenant?: string };

const figures = ['REQ/S', 'TOKENS/S', 'ERRORS/S', 'AT WORK', 'WAITING', 'FIRST P50', 'P95'];

export async function gatewayTop(context: Context, options: GatewayTopOptions): Promise<number> {
  const client = openClient(context);
  const path = withQuery('/v1/gateway/top', { tenant: options.tenant });
  const look = () => client.call<GatewayTop>('GET', path);
  const first = await look();
  if (options.json) {
    printJson(context, first);
    return exitCode('ok');
  }
  if (staysOn(context, options.once)) {
    return follow(context, { look, title: titleOf, tables: tablesOf }, first);
  }
  if (first.models.length === 0) say(context, 'Nothing was asked in the last minute.');
  for (const [index, { headings, rows, first_figure }] of tablesOf(first).entries()) {
    if (rows.length === 0) continue;
    if (index > 0) say(context, '');
    printTable(context, headings, rows, first_figure);
  }
  say(context, titleOf(first));
  return exitCode('ok');
}

function tablesOf({ models, keys }: GatewayTop): ScreenTable[] {
  return [
    { headings: ['MODEL', ...figures], rows: models.map(rowOf), first_figure: 1 },
    { headings: ['KEY', ...figures], rows: keys.map(rowOf), first_figure: 1 },
  ];
}

function rowOf(row: GatewayTopRow): string[] {
  const rates = [row.requests_per_s, row.tokens_per_s, row.errors_per_s];
  const now = [row.at_work, row.waiting];
  const firsts = [row.first_token_p50_ms, row.first_token_p95_ms];
  return [row.name, ...rates.map(figure), ...now.map(figure), ...firsts.map(msText)];
}

function titleOf({ tenant, window_ms, journal }: GatewayTop): string {
  const said = `Requests of ${tenant}, rates of the last ${Math.round(window_ms / 1000)} s`;
  const { waiting = 0, lost = 0, unclean = 0 } = journal ?? {};
  const records = [
    ...(waiting > 0 ? [`${waiting} not stored yet`] : []),
    ...(lost > 0 ? [`${lost} records lost`] : []),
    ...(unclean > 0 ? [`${unclean} ends without closing the journal`] : []),
  ];
  return [said, ...records].join(', ');
}

function figure(value: number): string {
  return value === 0 ? '' : String(value);
}

/** 740 ms, 12.5 s; what was not measured is nothing. */
export function msText(ms: number | null): string {
  if (ms === null) return '';
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
