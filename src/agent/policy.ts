/**
 * The policy file of a machine: what its owner keeps, and what guests may do there.
 *
 * Invariants: strict: a setting that is not known is an error, with its line, not a wish that is
 * passed over; it only narrows what the control plane allows (ADR-0061); reading it changes
 * nothing. Local times are the machine's own.
 */
import { z } from 'zod';
import type { GuardLevel } from '../core/guard.ts';
import { type Refusals, refuses_nothing } from '../core/refusals.ts';
import { driverIsolation } from '../core/trust.ts';
import { kinds } from '../core/workload.ts';
import { lineOf, parseJson } from './policy-lines.ts';

export type Policy = {
  /** Whose runs the guard holds back. The owner's own are left alone unless the owner says so. */
  applies_to: 'guests' | 'everyone';
  refuses: Refusals;
  /** Local times at which guests may be here, in minutes of the day; null: at any. */
  hours: Span[] | null;
  /** What is kept from workloads; null: the default. */
  reserve: { cpu_millis: number | null; memory_bytes: number | null; disk_bytes: number | null };
  when_active: GuardLevel;
  on_battery: GuardLevel;
  when_gpu_used: GuardLevel;
  /** How long nobody was seen before the owner counts as away. */
  away_ms: number;
  /** What guests are given before they are parked. */
  grace_ms: number;
  /** Degrees Celsius. */
  heat: { cpu: number; gpu: number };
};

/** From and to in minutes of the day; over midnight where `to` is not later. */
export type Span = { from: number; to: number };

export const default_policy: Policy = {
  applies_to: 'guests',
  refuses: refuses_nothing,
  hours: null,
  reserve: { cpu_millis: null, memory_bytes: null, disk_bytes: null },
  when_active: 2,
  on_battery: 3,
  when_gpu_used: 4,
  away_ms: 5 * 60_000,
  grace_ms: 60_000,
  heat: { cpu: 95, gpu: 90 },
};

/** Of a machine whose file cannot be read and never could: nobody knows what it would forbid. */
export const locked_policy: Policy = {
  ...default_policy,
  refuses: { ...refuses_nothing, guests: false },
};

export type PolicyReading =
  | { ok: true; policy: Policy }
  | { ok: false; line: number | null; problem: string };

export const policy_limit_bytes = 64 * 1024;

const answers = { ignore: 0, admit_nothing: 1, lower: 2, pause: 3, reclaim: 4 } as const;
const answer = z.enum(['ignore', 'admit_nothing', 'lower', 'pause', 'reclaim']);

const amount = (what: string, read: (text: string) => number | null) =>
  z.string().transform((text, context) => {
    const value = read(text);
    if (value !== null) return value;
    context.addIssue({ code: 'custom', message: `give ${what}` });
    return z.NEVER;
  });
const size = amount('a size such as 4GiB or 20GB', readSize);
const time = amount('a time such as 90s, 5m or 2h', readTime);
const span = z
  .string()
  .refine((text) => readSpan(text) !== null, { error: 'give hours such as 22:00-07:00' });

const names = z.array(z.string().min(1).max(256)).max(256);
const drivers = Object.keys(driverIsolation) as [string, ...string[]];
const slug = z.string().regex(/^[a-z0-9-]{1,40}$/, 'give the slug of a tenant');
const prefixes = z.strictObject({ allow: names.optional(), deny: names.optional() });

const fileSchema = z.strictObject({
  applies_to: z.enum(['guests', 'everyone']).optional(),
  guests: z
    .strictObject({
      allow: z.boolean().optional(),
      kinds: z.array(z.enum(kinds)).optional(),
      tenants: z.array(slug).max(256).optional(),
      drivers: z.array(z.enum(drivers)).optional(),
      images: prefixes.optional(),
      max_cpu: z.number().positive().optional(),
      max_memory: size.optional(),
      max_gpus: z.int().min(0).optional(),
      hours: z.array(span).min(1).max(16).optional(),
    })
    .optional(),
  reserve: z
    .strictObject({
      cpu: z.number().min(0).optional(),
      memory: size.optional(),
      disk: size.optional(),
    })
    .optional(),
  when_active: answer.optional(),
  on_battery: answer.optional(),
  when_gpu_used: answer.optional(),
  away: time.optional(),
  grace: time.optional(),
  heat: z
    .strictObject({
      cpu: z.number().min(30).max(120).optional(),
      gpu: z.number().min(30).max(120).optional(),
    })
    .optional(),
});

/** Reads the text of a policy file. */
export function readPolicy(text: string): PolicyReading {
  if (Buffer.byteLength(text) > policy_limit_bytes) {
    return { ok: false, line: null, problem: 'it is over 64 KiB' };
  }
  const parsed = parseJson(text);
  if (!parsed.ok) return parsed;
  const checked = fileSchema.safeParse(parsed.value);
  if (checked.success) return { ok: true, policy: policyOf(checked.data) };
  const [issue] = checked.error.issues;
  const path = (issue?.path ?? []).map(String);
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  const where = unknown === undefined ? path : [...path, unknown];
  const name = where.join('.');
  const problem =
    unknown === undefined
      ? `${name === '' ? 'it' : name}: ${issue?.message ?? 'not valid'}`
      : `there is no setting ${name}`;
  return { ok: false, line: lineOf(text, where), problem };
}

function policyOf(file: z.infer<typeof fileSchema>): Policy {
  const { guests = {}, reserve = {}, heat = {} } = file;
  const { images = {} } = guests;
  const base = default_policy;
  const level = (name: 'when_active' | 'on_battery' | 'when_gpu_used') => {
    const said = file[name];
    return said === undefined ? base[name] : answers[said];
  };
  return {
    applies_to: file.applies_to ?? base.applies_to,
    refuses: {
      guests: guests.allow ?? true,
      kinds: guests.kinds ?? null,
      tenants: guests.tenants ?? null,
      drivers: guests.drivers ?? null,
      images_allow: images.allow ?? null,
      images_deny: images.deny ?? [],
      max_cpu_millis: guests.max_cpu === undefined ? null : Math.round(guests.max_cpu * 1000),
      max_memory_bytes: guests.max_memory ?? null,
      max_gpus: guests.max_gpus ?? null,
    },
    hours: guests.hours?.flatMap((text) => readSpan(text) ?? []) ?? null,
    reserve: {
      cpu_millis: reserve.cpu === undefined ? null : Math.round(reserve.cpu * 1000),
      memory_bytes: reserve.memory ?? null,
      disk_bytes: reserve.disk ?? null,
    },
    when_active: level('when_active'),
    on_battery: level('on_battery'),
    when_gpu_used: level('when_gpu_used'),
    away_ms: file.away ?? base.away_ms,
    grace_ms: file.grace ?? base.grace_ms,
    heat: { cpu: heat.cpu ?? base.heat.cpu, gpu: heat.gpu ?? base.heat.gpu },
  };
}

/** Whether guests may be here at this minute of the day. */
export function isWithin(hours: readonly Span[] | null, minute: number): boolean {
  if (hours === null) return true;
  return hours.some(({ from, to }) =>
    from < to ? minute >= from && minute < to : minute >= from || minute < to,
  );
}

const unit_bytes: Record<string, number> = {
  ...{ B: 1, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 },
  ...{ KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 },
};
const unit_ms: Record<string, number> = { s: 1000, m: 60_000, h: 3600_000 };

function readSize(text: string): number | null {
  const match = /^(\d{1,9}(?:\.\d{1,3})?) ?([kKMGT]i?B|B)$/.exec(text);
  const unit = unit_bytes[match?.[2] ?? ''];
  return unit === undefined ? null : Math.floor(Number(match?.[1]) * unit);
}

function readTime(text: string): number | null {
  const match = /^(\d{1,6}(?:\.\d{1,3})?)([smh])$/.exec(text);
  const unit = unit_ms[match?.[2] ?? ''];
  return unit === undefined ? null : Math.round(Number(match?.[1]) * unit);
}

function readSpan(text: string): Span | null {
  const match = /^(\d{2}):(\d{2})-(\d{2}):(\d{2})$/.exec(text);
  if (match === null) return null;
  const [from_h = 0, from_m = 0, to_h = 0, to_m = 0] = match.slice(1).map(Number);
  if (from_h > 23 || to_h > 24 || from_m > 59 || to_m > 59 || to_h * 60 + to_m > 1440) return null;
  return { from: from_h * 60 + from_m, to: to_h * 60 + to_m };
}
