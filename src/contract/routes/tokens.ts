/**
 * API tokens and sessions: a user's own, and for those who may administer a user, that user's.
 */
import { z } from '@hono/zod-openapi';
import {
  newTokenSchema,
  revokedSchema,
  sessionPageSchema,
  tokenPageSchema,
  tokenRequestSchema,
} from '../accounts.ts';
import { defineRoute } from '../auth.ts';
import { body, failures, idempotent, json, may, nothing, pageQuery } from '../route-parts.ts';

const own = may('viewer', 'accounts');
const of_user = z.string().max(64).optional().openapi({
  description: "Another user's, for those who administer them; left out, one's own.",
});

export const tokenRoutes = {
  createToken: defineRoute(own, {
    method: 'post',
    path: '/v1/tokens',
    request: { ...body(tokenRequestSchema), headers: idempotent },
    responses: { 201: json('The token, shown once', newTokenSchema), ...failures },
  }),
  listTokens: defineRoute(own, {
    method: 'get',
    path: '/v1/tokens',
    request: { query: pageQuery.extend({ user: of_user }) },
    responses: { 200: json('Newest first, without their secrets', tokenPageSchema), ...failures },
  }),
  revokeToken: defineRoute(own, {
    method: 'delete',
    path: '/v1/tokens/{token}',
    request: { params: z.object({ token: z.string().max(26) }) },
    responses: { 204: nothing, ...failures },
  }),
  listSessions: defineRoute(own, {
    method: 'get',
    path: '/v1/sessions',
    request: { query: pageQuery.extend({ user: of_user }) },
    responses: { 200: json('Those that work, newest first', sessionPageSchema), ...failures },
  }),
  revokeSessions: defineRoute(own, {
    method: 'delete',
    path: '/v1/sessions',
    request: { query: z.object({ user: of_user }) },
    responses: { 200: json('All but the one that asks', revokedSchema), ...failures },
  }),
  revokeSession: defineRoute(own, {
    method: 'delete',
    path: '/v1/sessions/{session}',
    request: { params: z.object({ session: z.string().max(26) }) },
    responses: { 204: nothing, ...failures },
  }),
} as const;
