/**
 * Quotas, and the ledger of who used how much for how long.
 */
export const quotaLedger = {
  version: 3,
  name: 'quota-ledger',
  text: `
create table quotas (
  tenant_id text primary key references tenants (id)
);
`,
} as const;
