/**
 * Accounts on the wire: users, tenants, invitations, API tokens and sessions.
 *
 * Invariants: a secret (token, link) stands only in the answer that made it; a password only in a
 * request. Who may see a record is decided by the handlers, not by its shape.
 */
import { z } from '@hono/zod-openapi';
import { isId } from '../core/ids.ts';
import { roles, scopes } from './auth.ts';
import { limits } from './limits.ts';

const moment = z.number().openapi({ description: 'Milliseconds since 1970.' });
const maybe = moment.nullable();
const page = <S extends z.ZodType>(item: S) =>
  z.object({ items: z.array(item), next_cursor: z.string().nullable() });
const lifetime = z.int().min(1000).max(limits.longest_proof_ms);

export const roleSchema = z.enum(roles);
const scopesSchema = z.array(z.enum(scopes)).min(1).max(scopes.length);

export const userNameSchema = z
  .string()
  .max(limits.name_chars)
  .regex(/^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$/, 'use lower-case letters, digits, dots and dashes')
  .refine((name) => !isId(name), 'that would look like an id')
  .openapi({ description: 'Unique in the deployment.' });
/** Its length is judged in characters, by the rules for new passwords. */
const passwordSchema = z
  .string()
  .min(1)
  .max(4 * limits.password_chars);
const someNameSchema = z.string().min(1).max(limits.name_chars);
const linkTokenSchema = z.string().max(100);

export const signInSchema = z
  .union([
    z.strictObject({ token: linkTokenSchema.openapi({ description: 'Of a one-time link.' }) }),
    z.strictObject({ name: someNameSchema, password: passwordSchema }),
  ])
  .openapi('SignIn');

const tokenName = z.string().min(1).max(limits.name_chars);
export const logInSchema = z
  .strictObject({
    name: someNameSchema,
    password: passwordSchema,
    token_name: tokenName.optional().openapi({ description: 'What the list of tokens shows.' }),
  })
  .openapi('LogIn');

export const joinSchema = z
  .strictObject({ token: linkTokenSchema, name: userNameSchema, password: passwordSchema })
  .openapi('Join');
export const resetSchema = z
  .strictObject({ token: linkTokenSchema, password: passwordSchema })
  .openapi('Reset');
export const passwordChangeSchema = z
  .strictObject({
    current: passwordSchema.optional().openapi({ description: 'Left out where there is none.' }),
    password: passwordSchema,
  })
  .openapi('PasswordChange');

export const meSchema = z
  .object({
    user_id: z.string(),
    name: z.string(),
    /** What this proof may do: of a token, never more than its user. */
    role: z.string(),
    tenant: z.string(),
    via: z.enum(['token', 'session']),
    scopes: scopesSchema.nullable().openapi({ description: 'Null: not narrowed.' }),
    has_password: z.boolean(),
    expires_at: maybe,
  })
  .openapi('Me');
export type Me = z.infer<typeof meSchema>;

export const userSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    role: roleSchema,
    tenant: z.string(),
    has_password: z.boolean(),
    created_at: moment,
    last_used_at: maybe.openapi({ description: 'Last request by a session or token of theirs.' }),
    disabled_at: maybe,
  })
  .openapi('User');
export type User = z.infer<typeof userSchema>;
export const userPageSchema = page(userSchema);
export const roleChangeSchema = z.strictObject({ role: roleSchema }).openapi('RoleChange');

export const tenantSchema = z
  .object({
    id: z.string(),
    slug: z.string(),
    name: z.string(),
    users: z.number(),
    created_at: moment,
    disabled_at: maybe,
  })
  .openapi('Tenant');
export type Tenant = z.infer<typeof tenantSchema>;
export const tenantPageSchema = page(tenantSchema);
const tenantName = z.string().min(1).max(limits.name_chars);
export const tenantRequestSchema = z
  .strictObject({
    slug: z
      .string()
      .max(limits.slug_chars)
      .regex(/^[a-z](?:[a-z0-9-]*[a-z0-9])?$/, 'use lower-case letters, digits and dashes')
      .openapi({ description: 'Never changes: it names the tenant in a datacenter, too.' }),
    name: tenantName.optional(),
  })
  .openapi('TenantRequest');
export const tenantChangeSchema = z.strictObject({ name: tenantName }).openapi('TenantChange');

export const invitationSchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    role: roleSchema,
    state: z.enum(['open', 'used', 'expired', 'revoked']),
    invited_by: z.string(),
    used_by: z.string().nullable(),
    created_at: moment,
    expires_at: moment,
  })
  .openapi('Invitation');
export type Invitation = z.infer<typeof invitationSchema>;
export const invitationPageSchema = page(invitationSchema);
export const invitationRequestSchema = z
  .strictObject({
    role: roleSchema.optional().openapi({ description: "Not above the inviter's own; member." }),
    tenant: z.string().max(64).optional().openapi({ description: "The inviter's own." }),
    expires_in_ms: lifetime.optional().openapi({ description: 'Three days.' }),
  })
  .openapi('InvitationRequest');
export const newInvitationSchema = invitationSchema
  .extend({ url: z.string().openapi({ description: 'Shown once; it makes one user.' }) })
  .openapi('NewInvitation');
export type NewInvitation = z.infer<typeof newInvitationSchema>;

export const resetLinkSchema = z
  .object({ url: z.string(), expires_at: moment })
  .openapi('ResetLink');

export const tokenSchema = z
  .object({
    id: z.string(),
    user: z.string(),
    name: z.string(),
    role: roleSchema.openapi({ description: 'At most; never more than its user has now.' }),
    scopes: scopesSchema.nullable(),
    last_four: z.string(),
    created_at: moment,
    last_used_at: maybe,
    expires_at: maybe,
    revoked_at: maybe,
  })
  .openapi('ApiToken');
export type ApiToken = z.infer<typeof tokenSchema>;
export const tokenPageSchema = page(tokenSchema);
export const tokenRequestSchema = z
  .strictObject({
    name: tokenName,
    role: roleSchema.optional().openapi({ description: 'At most this; not above your own.' }),
    scopes: scopesSchema.optional().openapi({ description: 'Only these; left out, all you have.' }),
    expires_in_ms: lifetime
      .nullable()
      .optional()
      .openapi({ description: 'Left out, 90 days; null, never.' }),
  })
  .openapi('ApiTokenRequest');
export const newTokenSchema = tokenSchema.extend({ token: z.string() }).openapi('NewApiToken');
export type NewApiToken = z.infer<typeof newTokenSchema>;

export const sessionSchema = z
  .object({
    id: z.string(),
    user: z.string(),
    client: z.string().openapi({ description: 'What the browser calls itself.' }),
    signed_in_by: z.enum(['link', 'password']),
    current: z.boolean().openapi({ description: 'It is the one that asks.' }),
    created_at: moment,
    last_used_at: moment,
    expires_at: moment,
  })
  .openapi('Session');
export type Session = z.infer<typeof sessionSchema>;
export const sessionPageSchema = page(sessionSchema);
export const revokedSchema = z.object({ revoked: z.number() }).openapi('Revoked');
