/**
 * Every route of the API, each with its authorisation row: the one source of validation, OpenAPI
 * and the typed client.
 */
import { z } from '@hono/zod-openapi';
import { type AuthRow, defineRoute } from './auth.ts';
import { errorSchema } from './errors.ts';
import { limits } from './limits.ts';
import { catalogSchema, machineListSchema } from './machines.ts';
import {
  eventPageSchema,
  keyListSchema,
  keyRequestSchema,
  launchSchema,
  logChunkSchema,
  newKeySchema,
  planSchema,
  workloadPageSchema,
  workloadSchema,
} from './workloads.ts';

const json = <S extends z.ZodType>(description: string, schema: S) => ({
  description,
  content: { 'application/json': { schema } },
});
const body = <S extends z.ZodType>(schema: S) => ({
  body: { required: true, content: { 'application/json': { schema } } },
});
const failures = { default: json('Refused; `code` says why', errorSchema) };
const nothing = { description: 'Done' };
const idempotent = z.object({
  'idempotency-key': z
    .string()
    .min(1)
    .max(limits.idempotency_key_chars)
    .optional()
    .openapi({ description: 'A repeat with the same key has the effect of one call.' }),
});
const workloadParams = z.object({
  workload: z.string().max(64).openapi({ description: "A workload's id or name." }),
});
const keyParams = workloadParams.extend({ key_id: z.string().max(26) });
const pageQuery = z.object({
  cursor: z.string().max(200).optional(),
  limit: z.coerce.number().int().min(1).max(limits.page_rows).optional(),
});

const viewer: AuthRow = { who: 'user', role: 'viewer' };
const member: AuthRow = { who: 'user', role: 'member' };
const operator: AuthRow = { who: 'user', role: 'operator' };
const anyone: AuthRow = { who: 'anyone' };

export const routes = {
  health: defineRoute(anyone, {
    method: 'get',
    path: '/healthz',
    responses: { 200: json('It serves', z.object({ status: z.literal('ok') })) },
  }),
  openapi: defineRoute(anyone, {
    method: 'get',
    path: '/v1/openapi.json',
    responses: { 200: json('This API', z.looseObject({})) },
  }),
  signIn: defineRoute(anyone, {
    method: 'post',
    path: '/v1/session',
    request: body(z.strictObject({ token: z.string().max(100) })),
    responses: { 204: nothing, ...failures },
  }),
  signOut: defineRoute(viewer, {
    method: 'delete',
    path: '/v1/session',
    responses: { 204: nothing, ...failures },
  }),
  whoAmI: defineRoute(viewer, {
    method: 'get',
    path: '/v1/me',
    responses: {
      200: json(
        'The signed-in user',
        z
          .object({ user_id: z.string(), name: z.string(), role: z.string(), tenant: z.string() })
          .openapi('Me'),
      ),
      ...failures,
    },
  }),
  createSignInLink: defineRoute(operator, {
    method: 'post',
    path: '/v1/sign-in-links',
    responses: {
      201: json('A link that signs one browser in, once', z.object({ url: z.string() })),
      ...failures,
    },
  }),
  plan: defineRoute(viewer, {
    method: 'post',
    path: '/v1/plan',
    request: body(launchSchema),
    responses: { 200: json('What a launch would do, and why', planSchema), ...failures },
  }),
  launch: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads',
    request: { ...body(launchSchema), headers: idempotent },
    responses: { 201: json('Recorded', workloadSchema), ...failures },
  }),
  listWorkloads: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads',
    request: { query: pageQuery.extend({ deleted: z.enum(['true', 'false']).optional() }) },
    responses: { 200: json('Newest first', workloadPageSchema), ...failures },
  }),
  showWorkload: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}',
    request: { params: workloadParams },
    responses: { 200: json('The workload', workloadSchema), ...failures },
  }),
  stopWorkload: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads/{workload}/stop',
    request: { params: workloadParams, headers: idempotent },
    responses: { 202: json('Accepted', workloadSchema), ...failures },
  }),
  startWorkload: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads/{workload}/start',
    request: { params: workloadParams, headers: idempotent },
    responses: { 202: json('Accepted', workloadSchema), ...failures },
  }),
  deleteWorkload: defineRoute(member, {
    method: 'delete',
    path: '/v1/workloads/{workload}',
    request: { params: workloadParams },
    responses: { 202: json('Accepted', workloadSchema), ...failures },
  }),
  listEvents: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}/events',
    request: { params: workloadParams, query: pageQuery },
    responses: { 200: json('The timeline, oldest first', eventPageSchema), ...failures },
  }),
  readLogs: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}/logs',
    request: {
      params: workloadParams,
      query: z.object({
        offset: z.coerce.number().int().optional().openapi({
          description: 'Byte to read from; negative counts from the end.',
        }),
      }),
    },
    responses: { 200: json('Output of the current run', logChunkSchema), ...failures },
  }),
  createKey: defineRoute(member, {
    method: 'post',
    path: '/v1/workloads/{workload}/keys',
    request: { ...body(keyRequestSchema), params: workloadParams, headers: idempotent },
    responses: { 201: json('The key, shown once', newKeySchema), ...failures },
  }),
  listKeys: defineRoute(viewer, {
    method: 'get',
    path: '/v1/workloads/{workload}/keys',
    request: { params: workloadParams },
    responses: { 200: json('Its keys, without their secrets', keyListSchema), ...failures },
  }),
  revokeKey: defineRoute(member, {
    method: 'delete',
    path: '/v1/workloads/{workload}/keys/{key_id}',
    request: { params: keyParams },
    responses: { 204: nothing, ...failures },
  }),
  listMachines: defineRoute(viewer, {
    method: 'get',
    path: '/v1/machines',
    responses: { 200: json('The machines', machineListSchema), ...failures },
  }),
  showCatalog: defineRoute(viewer, {
    method: 'get',
    path: '/v1/catalog',
    responses: { 200: json('Classes and models', catalogSchema), ...failures },
  }),
} as const;

export type RouteName = keyof typeof routes;

/** Paths of the inference gateway. They take `ept_` keys only and speak OpenAI's shapes. */
export const gatewayRoutes = [
  { method: 'POST', path: '/v1/chat/completions', auth: { who: 'endpoint-key' } },
  { method: 'POST', path: '/v1/completions', auth: { who: 'endpoint-key' } },
  { method: 'GET', path: '/v1/models', auth: { who: 'endpoint-key' } },
] as const satisfies readonly { method: string; path: string; auth: AuthRow }[];

/** Reserved on the control plane's /v1 for the gateway, served or not yet. */
export const gatewayPrefixes = [
  '/v1/chat/',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/models',
  '/v1/rerank',
  '/v1/images',
  '/v1/files',
  '/v1/audio',
] as const;
