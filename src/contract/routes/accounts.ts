/**
 * Health, the API itself, and how a person proves who they are: signing in and out, joining by an
 * invitation, passwords.
 */
import { z } from '@hono/zod-openapi';
import {
  joinSchema,
  logInSchema,
  meSchema,
  newTokenSchema,
  passwordChangeSchema,
  resetSchema,
  signInSchema,
  userSchema,
} from '../accounts.ts';
import { defineRoute } from '../auth.ts';
import { anyone, body, failures, json, may, nothing } from '../route-parts.ts';

const self = may('viewer', 'self');
const whole = may('viewer', 'self', { whole: true });

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
    request: body(signInSchema),
    responses: { 204: nothing, ...failures },
  }),
  signOut: defineRoute(self, {
    method: 'delete',
    path: '/v1/session',
    responses: { 204: nothing, ...failures },
  }),
  logIn: defineRoute(anyone, {
    method: 'post',
    path: '/v1/login',
    request: body(logInSchema),
    responses: { 201: json('An API token for a command line', newTokenSchema), ...failures },
  }),
  join: defineRoute(anyone, {
    method: 'post',
    path: '/v1/join',
    request: body(joinSchema),
    responses: { 201: json('The user that the invitation became', userSchema), ...failures },
  }),
  resetPassword: defineRoute(anyone, {
    method: 'post',
    path: '/v1/reset',
    request: body(resetSchema),
    responses: { 204: nothing, ...failures },
  }),
  changePassword: defineRoute(whole, {
    method: 'put',
    path: '/v1/me/password',
    request: body(passwordChangeSchema),
    responses: { 204: nothing, ...failures },
  }),
  whoAmI: defineRoute(self, {
    method: 'get',
    path: '/v1/me',
    responses: { 200: json('Who asks, and by which proof', meSchema), ...failures },
  }),
  createSignInLink: defineRoute(whole, {
    method: 'post',
    path: '/v1/sign-in-links',
    responses: {
      201: json('A link that signs one browser in, once', z.object({ url: z.string() })),
      ...failures,
    },
  }),
} as const;
