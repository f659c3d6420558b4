/**
 * Codes of accounts, passwords, tokens, tenants: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const accountReasons = {
  sign_in_wrong: {
    status: 401,
    sentence: 'The name or the password is not right.',
    fix: 'bin/einsora users reset <name>, run by an admin',
  },
  sign_in_slow: {
    status: 429,
    sentence: 'Too many tries with this name; the next one is possible in {wait}.',
    fix: 'wait, or sign in by a one-time link: bin/einsora open',
  },
  invitation_spent: {
    status: 401,
    sentence: 'This invitation was used or revoked, or is too old.',
    fix: 'bin/einsora invite, run by whoever invited you',
  },
  reset_link_spent: {
    status: 401,
    sentence: 'This link was used or is too old.',
    fix: 'bin/einsora users reset <name>, run by an admin',
  },
  password_refused: {
    status: 400,
    sentence: 'The password was refused: {why}.',
    fix: 'choose another one: bin/einsora passwd',
  },
  password_wrong: {
    status: 403,
    sentence: 'The current password is not right.',
    fix: 'bin/einsora users reset <name>, run by an admin',
  },
  scope_missing: {
    status: 403,
    sentence: 'This token may not do this: it lacks the scope {scope}.',
    fix: 'bin/einsora tokens create <name> --scope {scope}',
  },
  token_too_narrow: {
    status: 403,
    sentence:
      'This gives out a proof of all that a user may do, so a narrowed token may not do it.',
    fix: 'bin/einsora login',
  },
  token_too_wide: {
    status: 403,
    sentence: 'A token cannot make one that is wider than itself: {what}.',
    fix: 'sign in, then: bin/einsora tokens create <name>',
  },
  role_too_high: {
    status: 403,
    sentence: 'That needs the role {needed}: nobody gives or changes a role above their own.',
    fix: 'bin/einsora users ls shows who may: ask one of them',
  },
  last_operator: {
    status: 409,
    sentence: '{name} is the last operator, so there would be nobody to run this deployment.',
    fix: 'bin/einsora users set-role <name> operator',
  },
  user_name_taken: {
    status: 409,
    sentence: 'There is a user {name} already; choose another name.',
    fix: null,
  },
  tenant_slug_taken: {
    status: 409,
    sentence: 'There is a tenant {slug} already.',
    fix: 'bin/einsora tenants ls',
  },
  tenant_disabled: {
    status: 409,
    sentence: 'The tenant {tenant} is disabled.',
    fix: 'bin/einsora tenants enable {tenant}',
  },
  limit_reached: {
    status: 409,
    sentence: 'There are {limit} {what} already, which is the most.',
    fix: null,
  },
} as const satisfies Record<string, Reason>;
