/**
 * `einsora quota`: how much a tenant, or a user of it, may claim at once, and what is claimed.
 */
import type { Me } from '../contract/accounts.ts';
import type { Quota, QuotaList } from '../contract/quotas.ts';
import { formatAmount, type QuotaLimits, quotaAmounts } from '../core/quota.ts';
import { usageError } from './cli-error.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, printTable, say } from './output.ts';

type ShowOptions = { tenant?: string; json?: boolean };

type Limit = number | 'none';

export type SetOptions = ShowOptions & {
  user?: string;
  class?: string;
  workloads?: Limit;
  gpus?: Limit;
  cpu?: Limit;
  memory?: Limit;
  disk?: Limit;
};

export async function showQuota(context: Context, options: ShowOptions): Promise<number> {
  const client = openClient(context);
  const path = await pathOf(client, options);
  return print(context, await client.call<QuotaList>('GET', path), options);
}

export async function setQuota(context: Context, options: SetOptions): Promise<number> {
  const limits = limitsOf(options);
  if (Object.keys(limits).length === 0) {
    throw usageError('no limit is given', 'bin/einsora quota set --workloads 10 --memory 64GiB');
  }
  const client = openClient(context);
  const body = { user: options.user ?? null, gpu_class: options.class ?? null, limits };
  const path = await pathOf(client, options);
  return print(context, await client.call<QuotaList>('PUT', path, { body }), options);
}

async function pathOf(client: Client, { tenant }: ShowOptions): Promise<string> {
  const slug = tenant ?? (await client.call<Me>('GET', '/v1/me')).tenant;
  return `/v1/tenants/${encodeURIComponent(slug)}/quota`;
}

function limitsOf(options: SetOptions): Partial<QuotaLimits> {
  const { workloads, gpus, cpu, memory, disk } = options;
  const given: [keyof QuotaLimits, Limit | undefined, number][] = [
    ['workloads', workloads, 1],
    ['gpus', gpus, 1],
    ['cpu_millis', cpu, 1000],
    ['memory_bytes', memory, 1],
    ['disk_bytes', disk, 1],
  ];
  return Object.fromEntries(
    given.flatMap(([name, limit, times]) =>
      limit === undefined ? [] : [[name, limit === 'none' ? null : Math.round(limit * times)]],
    ),
  );
}

function print(context: Context, list: QuotaList, { json }: ShowOptions): number {
  if (json) {
    printJson(context, list);
    return exitCode('ok');
  }
  say(context, `Claims of ${list.tenant}, and their limits:`);
  const headings = ['WHOSE', 'CLASS', 'WORKLOADS', 'GPUS', 'CPU', 'MEMORY', 'DISK'];
  printTable(context, headings, list.items.map(row));
  return exitCode('ok');
}

function row(quota: Quota): string[] {
  return [
    quota.user ?? 'all',
    quota.gpu_class ?? 'all',
    ...quotaAmounts.map((name) => {
      const limit = quota.limits[name];
      const used = formatAmount(name, quota.used[name]);
      return limit === null ? used : `${used} of ${formatAmount(name, limit)}`;
    }),
  ];
}
