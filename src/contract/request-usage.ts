/**
 * Requests to endpoints on the wire: who asked which model how often, with how many tokens.
 */
import { z } from '@hono/zod-openapi';
import { pageQuery } from './route-parts.ts';
import { usageQuery } from './usage.ts';

export const requestGroups = ['key', 'model', 'user', 'guest', 'day'] as const;
export type RequestGroup = (typeof requestGroups)[number];

const ms = (description: string) => z.number().nullable().openapi({ description });

export const requestUsageQuery = usageQuery.omit({ group_by: true }).extend({
  group_by: z.enum(requestGroups).optional().openapi({
    description: '`guest`: other tenants at endpoints of this one; all else: keys of this tenant.',
  }),
});

const requestFields = {
  requests: z.number(),
  answered: z.number().openapi({ description: "Whole, with the engine's own end." }),
  refused: z.number().openapi({ description: 'An exact status before anything was sent.' }),
  cut: z.number().openapi({ description: 'Broken after a part of it, and told so.' }),
  client_left: z.number().openapi({ description: 'The client went first.' }),
  attempts: z.number().openapi({ description: 'Engines that were asked.' }),
  prompt_tokens: z.number(),
  cached_tokens: z.number().openapi({ description: 'Of the prompts, those the engine had.' }),
  completion_tokens: z.number(),
  estimated: z.number().openapi({ description: 'Requests whose tokens had to be estimated.' }),
  first_token_p50_ms: ms('Half of them had their first content by then; about.'),
  first_token_p95_ms: ms('Nineteen of twenty had their first content by then; about.'),
};

export const requestUsagePageSchema = z
  .object({
    tenant: z.string(),
    from: z.number().openapi({ description: 'Milliseconds since 1970; a day begins there.' }),
    to: z.number().openapi({ description: 'Milliseconds since 1970; a day ends there.' }),
    group_by: z.enum(requestGroups),
    /** Of the whole window, on every page. */
    total: z.object(requestFields),
    items: z.array(z.object({ key: z.string(), name: z.string(), ...requestFields })),
    next_cursor: z.string().nullable(),
  })
  .openapi('RequestUsagePage');
export type RequestUsagePage = z.infer<typeof requestUsagePageSchema>;

/** One request, as it was recorded: never a prompt, an answer or a key. */
export const gatewayRequestSchema = z
  .object({
    at: z.number(),
    model: z.string().openapi({ description: 'As asked.' }),
    api: z.string(),
    is_stream: z.boolean(),
    key_id: z.string(),
    last_four: z.string().nullable().openapi({ description: 'Of the key; null: of a run.' }),
    workload_id: z.string().nullable(),
    machine_name: z.string().nullable(),
    placed_class: z.string().nullable(),
    outcome: z.string(),
    status: z.number().nullable(),
    code: z.string().nullable(),
    attempts: z.number(),
    prompt_tokens: z.number(),
    cached_tokens: z.number(),
    completion_tokens: z.number(),
    is_estimated: z.boolean(),
    waited_ms: z.number(),
    first_token_ms: z.number().nullable(),
    duration_ms: z.number(),
  })
  .openapi('GatewayRequest');
export type GatewayRequest = z.infer<typeof gatewayRequestSchema>;

export const gatewayRequestsQuery = pageQuery.extend({
  failed: z.enum(['true', 'false']).optional().openapi({
    description: 'Only what was refused or cut.',
  }),
  key: z.string().min(1).max(64).optional().openapi({
    description: "A key's id or last four characters; of a run's key its workload's id or name.",
  }),
  model: z.string().min(1).max(128).optional().openapi({ description: 'As asked.' }),
  tenant: z.string().max(64).optional().openapi({ description: 'Of this tenant, for operators.' }),
});

export const listedRequestSchema = gatewayRequestSchema
  .extend({ request_id: z.string() })
  .openapi('ListedRequest');
export type ListedRequest = z.infer<typeof listedRequestSchema>;

export const gatewayRequestPageSchema = z
  .object({ items: z.array(listedRequestSchema), next_cursor: z.string().nullable() })
  .openapi('GatewayRequestPage');
