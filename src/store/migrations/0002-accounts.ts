/**
 * Accounts: passwords, invitations, tokens that are narrower than their user.
 */
export const accounts = {
  version: 2,
  name: 'accounts',
  text: `
create unique index users_name on users (name);
`,
} as const;
