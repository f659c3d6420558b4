/**
 * Users, tenants and invitations.
 */
import { z } from '@hono/zod-openapi';
import {
  invitationPageSchema,
  invitationRequestSchema,
  newInvitationSchema,
  resetLinkSchema,
  roleChangeSchema,
  tenantChangeSchema,
  tenantPageSchema,
  tenantRequestSchema,
  tenantSchema,
  userPageSchema,
  userSchema,
} from '../accounts.ts';
import { defineRoute } from '../auth.ts';
import { body, failures, idempotent, json, may, nothing, pageQuery } from '../route-parts.ts';

const admin = may('tenant-admin', 'accounts');
const whole_admin = may('tenant-admin', 'accounts', { whole: true });
const operator = may('operator', 'accounts');
export const userParams = z.object({
  user: z.string().max(64).openapi({ description: "A user's id or name." }),
});
export const tenantParams = z.object({
  tenant: z.string().max(64).openapi({ description: "A tenant's id or slug." }),
});
const ofTenant = pageQuery.extend({
  tenant: z.string().max(64).optional().openapi({ description: 'Only of this tenant.' }),
});

export const userRoutes = {
  listUsers: defineRoute(admin, {
    method: 'get',
    path: '/v1/users',
    request: { query: ofTenant },
    responses: { 200: json('Newest first', userPageSchema), ...failures },
  }),
  showUser: defineRoute(admin, {
    method: 'get',
    path: '/v1/users/{user}',
    request: { params: userParams },
    responses: { 200: json('The user', userSchema), ...failures },
  }),
  disableUser: defineRoute(admin, {
    method: 'post',
    path: '/v1/users/{user}/disable',
    request: { params: userParams },
    responses: { 200: json('Nothing of theirs opens anything now', userSchema), ...failures },
  }),
  enableUser: defineRoute(whole_admin, {
    method: 'post',
    path: '/v1/users/{user}/enable',
    request: { params: userParams },
    responses: { 200: json('They may sign in again', userSchema), ...failures },
  }),
  setRole: defineRoute(whole_admin, {
    method: 'put',
    path: '/v1/users/{user}/role',
    request: { ...body(roleChangeSchema), params: userParams },
    responses: { 200: json('The user, with the new role', userSchema), ...failures },
  }),
  createResetLink: defineRoute(whole_admin, {
    method: 'post',
    path: '/v1/users/{user}/reset',
    request: { params: userParams },
    responses: { 201: json('A link that sets one password, once', resetLinkSchema), ...failures },
  }),
} as const;

export const tenantRoutes = {
  listTenants: defineRoute(operator, {
    method: 'get',
    path: '/v1/tenants',
    request: { query: pageQuery },
    responses: { 200: json('Newest first', tenantPageSchema), ...failures },
  }),
  createTenant: defineRoute(operator, {
    method: 'post',
    path: '/v1/tenants',
    request: { ...body(tenantRequestSchema), headers: idempotent },
    responses: { 201: json('The tenant', tenantSchema), ...failures },
  }),
  renameTenant: defineRoute(operator, {
    method: 'patch',
    path: '/v1/tenants/{tenant}',
    request: { ...body(tenantChangeSchema), params: tenantParams },
    responses: { 200: json('The tenant', tenantSchema), ...failures },
  }),
  disableTenant: defineRoute(operator, {
    method: 'post',
    path: '/v1/tenants/{tenant}/disable',
    request: { params: tenantParams },
    responses: { 200: json('No proof of its users works now', tenantSchema), ...failures },
  }),
  enableTenant: defineRoute(operator, {
    method: 'post',
    path: '/v1/tenants/{tenant}/enable',
    request: { params: tenantParams },
    responses: { 200: json('Its users may sign in again', tenantSchema), ...failures },
  }),
} as const;

export const invitationRoutes = {
  createInvitation: defineRoute(whole_admin, {
    method: 'post',
    path: '/v1/invitations',
    request: { ...body(invitationRequestSchema), headers: idempotent },
    responses: { 201: json('The link, shown once', newInvitationSchema), ...failures },
  }),
  listInvitations: defineRoute(admin, {
    method: 'get',
    path: '/v1/invitations',
    request: { query: ofTenant },
    responses: {
      200: json('Newest first, without their links', invitationPageSchema),
      ...failures,
    },
  }),
  revokeInvitation: defineRoute(admin, {
    method: 'delete',
    path: '/v1/invitations/{invitation}',
    request: { params: z.object({ invitation: z.string().max(26) }) },
    responses: { 204: nothing, ...failures },
  }),
} as const;
