/**
 * Where the names of models lead, on the wire.
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';

const replicaRouteSchema = z.object({
  replica: z.number(),
  run_epoch: z.number(),
  /** ready: it answers; ending: it is being taken off its machine. */
  state: z.enum(['preparing', 'ready', 'ending']),
  machine_name: z.string().nullable(),
  placed_class: z.string(),
  region: z.string(),
  /** What it stands in for, as X-Einsora-Fallback says it; `none`: it is as asked. */
  fallback: z.string(),
  /** False where its machine has not been heard of lately: others are asked first. */
  heard_of: z.boolean(),
  /** Requests that its engine works on at a time, and those that it has from this gateway. */
  slots: z.number(),
  outstanding: z.number(),
  /** Of the last minute. */
  requests_per_minute: z.number(),
  /** open: it failed, and is left alone for a while; half_open: one request tries it. */
  breaker: z.enum(['closed', 'half_open', 'open']),
  /** It has had requests for a while, and gave no token to any of them. */
  suspect: z.boolean(),
  last_failure: z
    .object({ at: z.number(), code: z.string(), message: z.string().nullable() })
    .nullable(),
});

export const modelRouteSchema = z
  .object({
    model: z.string(),
    /** Further names of it. */
    aliases: z.array(z.string()),
    workload_id: z.string(),
    state: z.string(),
    /** How its engine is spoken to. */
    engine: z.string(),
    /** How many are asked for, and how many answer. */
    replicas: z.number(),
    replicas_ready: z.number(),
    routes: z.array(replicaRouteSchema),
  })
  .openapi('ModelRoute');
export type ModelRoute = z.infer<typeof modelRouteSchema>;
export type ReplicaRoute = z.infer<typeof replicaRouteSchema>;

export const modelRoutePageSchema = z
  .object({ items: z.array(modelRouteSchema), next_cursor: z.string().nullable() })
  .openapi('ModelRoutePage');
export type ModelRoutePage = z.infer<typeof modelRoutePageSchema>;

const alias = z
  .string()
  .max(limits.alias_chars)
  .regex(/^[A-Za-z0-9](?:[A-Za-z0-9._:/-]*[A-Za-z0-9])?$/, 'use letters, digits, and ._:/- inside');
const aliasList = z.array(alias).max(limits.aliases);

export const aliasChangeSchema = z
  .strictObject({ add: aliasList.optional(), remove: aliasList.optional() })
  .openapi('AliasChange');

export const aliasesSchema = z
  .object({ model: z.string(), aliases: z.array(z.string()) })
  .openapi('Aliases');
export type Aliases = z.infer<typeof aliasesSchema>;
