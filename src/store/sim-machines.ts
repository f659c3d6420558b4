/**
 * Made-up machines in the store: dev mode and tests add them as a file says (ADR-0057).
 *
 * Invariants: what a person changed of one since (its owner, its sharing, its guests) is not
 * changed back: a machine that is known stays as it is.
 */
import type { Sharing } from '../core/trust.ts';
import { addMachine } from './machines.ts';
import type { Sql } from './sql.ts';

export type SimMachineArgs = {
  id: string;
  name: string;
  region: string;
  /** By slug, with the id that it gets where it is not there yet. */
  owner: SimTenant;
  guests: SimTenant[];
  sharing: Sharing;
  now: number;
};
export type SimTenant = { slug: string; new_id: string };

export async function addSimMachine(sql: Sql, args: SimMachineArgs): Promise<{ added: number }> {
  const { id, name, region, now } = args;
  const tenant_id = await tenantBy(sql, args.owner, now);
  const { added } = await addMachine(sql, { id, tenant_id, name, region, now });
  if (added === 0) return { added };
  await sql.run('update machines set sharing = $2 where id = $1', [id, args.sharing]);
  for (const guest of args.guests) {
    const guest_id = await tenantBy(sql, guest, now);
    await sql.run(
      `insert into machine_guests (machine_id, tenant_id, created_at) values ($1, $2, $3)
       on conflict (machine_id, tenant_id) do nothing`,
      [id, guest_id, now],
    );
  }
  return { added };
}

async function tenantBy(sql: Sql, { slug, new_id }: SimTenant, now: number): Promise<string> {
  await sql.run(
    `insert into tenants (id, slug, name, created_at) values ($1, $2, $2, $3)
     on conflict (slug) do nothing`,
    [new_id, slug, now],
  );
  const found = await sql.get<{ id: string }>('select id from tenants where slug = $1', [slug]);
  if (found === undefined) throw new Error(`tenant ${slug} did not come back`);
  return found.id;
}
