/**
 * What routes are made of: bodies, answers, parameters that many share, and the usual auth rows.
 */
import { z } from '@hono/zod-openapi';
import type { Area, AuthRow, Role, UserRow } from './auth.ts';
import { errorSchema } from './errors.ts';
import { limits } from './limits.ts';

export const json = <S extends z.ZodType>(description: string, schema: S) => ({
  description,
  content: { 'application/json': { schema } },
});
export const body = <S extends z.ZodType>(schema: S) => ({
  body: { required: true, content: { 'application/json': { schema } } },
});
export const failures = { default: json('Refused; `code` says why', errorSchema) };
export const nothing = { description: 'Done' };
export const idempotent = z.object({
  'idempotency-key': z
    .string()
    .min(1)
    .max(limits.idempotency_key_chars)
    .optional()
    .openapi({ description: 'A repeat with the same key has the effect of one call.' }),
});
export const workloadParams = z.object({
  workload: z.string().max(64).openapi({ description: "A workload's id or name." }),
});
export const pageQuery = z.object({
  cursor: z.string().max(200).optional(),
  limit: z.coerce.number().int().min(1).max(limits.page_rows).optional(),
});

export const anyone: AuthRow = { who: 'anyone' };

/** A user of at least this role, or a token of theirs whose scopes hold the area. */
export function may(role: Role, area: Area, more: Pick<UserRow, 'reads' | 'whole'> = {}): AuthRow {
  return { who: 'user', role, area, ...more };
}
