/**
 * Health, the API itself, and signing in and out.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { anyone, body, failures, json, may, nothing } from '../route-parts.ts';

const operator = may('operator', 'self');
const viewer = may('viewer', 'self');

export const accountRoutes = {
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
} as const;
