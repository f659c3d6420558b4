/**
 * Quotas: how much a tenant, or a user of it, may claim at once.
 *
 * Invariants: pure; a limit of null limits nothing; what is claimed already and what is asked for
 * may reach the limit exactly; the first amount that is over it is the one that is told.
 */
import { formatMemory } from './format.ts';
import type { Details } from './reasons.ts';

export const quotaAmounts = [
  'workloads',
  'gpus',
  'cpu_millis',
  'memory_bytes',
  'disk_bytes',
] as const;
export type QuotaAmount = (typeof quotaAmounts)[number];

/** Null means that there is no limit. */
export type QuotaLimits = Record<QuotaAmount, number | null>;
/** What is claimed, or asked for. */
export type Claims = Record<QuotaAmount, number>;

export type Exceeded = { what: QuotaAmount; limit: number; used: number; asked: number };

export function exceeded(limits: QuotaLimits, used: Claims, asked: Claims): Exceeded | null {
  for (const what of quotaAmounts) {
    const limit = limits[what];
    if (limit === null || asked[what] === 0 || used[what] + asked[what] <= limit) continue;
    return { what, limit, used: used[what], asked: asked[what] };
  }
  return null;
}

/** The details of the reason `quota_exceeded`: figures for programs, `said` for people. */
export function exceededDetails(over: Exceeded, whose: string): Details {
  const { what, limit, used, asked } = over;
  const say = (amount: number) => formatAmount(what, amount);
  const verb = what === 'workloads' || what === 'gpus' ? 'are' : 'is';
  const known = `${quotaWords[what]} ${verb} limited to ${say(limit)}`;
  return { ...over, whose, said: `${known}, ${say(used)} used and ${say(asked)} more asked for` };
}

export const quotaWords: Record<QuotaAmount, string> = {
  workloads: 'workloads',
  gpus: 'GPUs',
  cpu_millis: 'CPU',
  memory_bytes: 'memory',
  disk_bytes: 'disk',
};

/** 2500 of cpu_millis gives "2.5", 2147483648 of memory_bytes "2 GiB". */
export function formatAmount(what: QuotaAmount, amount: number): string {
  if (what === 'cpu_millis') return `${amount / 1000}`;
  if (what === 'memory_bytes' || what === 'disk_bytes')
    return amount === 0 ? '0' : formatMemory(amount);
  return String(amount);
}

export const noLimits: QuotaLimits = {
  workloads: null,
  gpus: null,
  cpu_millis: null,
  memory_bytes: null,
  disk_bytes: null,
};

export const noClaims: Claims = {
  workloads: 0,
  gpus: 0,
  cpu_millis: 0,
  memory_bytes: 0,
  disk_bytes: 0,
};
