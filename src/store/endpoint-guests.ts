/**
 * Managed inference: to whom the owner of a machine opened an endpoint on it (ADR-0058).
 *
 * Invariants: opening gives prompts and nothing else; whether a tenant may send one is asked of the
 * machine's sharing at each request, never remembered.
 */
import { mayPrompt, type Sharing, trustLevel } from '../core/trust.ts';
import { type Action, recordAction } from './activity.ts';
import type { WorkloadRow } from './events.ts';
import type { Query, Row, Sql } from './sql.ts';
import { findWorkload } from './workloads.ts';

/** How an endpoint of another tenant stands to the one that asks. */
export type OpenEndpoint = {
  workload_id: string;
  /** `<slug of its tenant>/<its name>`: what guests call it. */
  model: string;
  owner: string;
  created_at: number;
  /** Machines of its tenant that are shared with the asker: only there may it be prompted. */
  machine_ids: string[];
};

type OpenRow = Row & {
  id: string;
  tenant_id: string;
  name: string;
  owner: string;
  slug: string;
  created_at: number;
};
type MachineFacts = Row & { id: string; tenant_id: string; sharing: Sharing; invited: number };

const machines_limit = 1000;
const guests_limit = 200;

/** What is open to `$1`: by name or to everybody, of tenants that are not disabled. */
const open = `select w.id, w.tenant_id, w.name, w.created_at, t.name as owner, t.slug
  from workloads w join tenants t on t.id = w.tenant_id and t.disabled_at is null
  where w.kind = 'endpoint' and w.state <> 'deleted' and w.tenant_id <> $1
    and (w.opened_at is not null or w.id in
      (select g.workload_id from endpoint_guests g where g.tenant_id = $1))`;

/** The endpoints of others that a tenant may prompt now, by their names. */
export const listOpenEndpoints: Query<
  { tenant_id: string; limit: number },
  OpenEndpoint[]
> = async (sql, { tenant_id, limit }) => {
  const rows = await sql.all<OpenRow>(`${open} order by t.slug, w.name limit $2`, [
    tenant_id,
    limit,
  ]);
  return withMachines(sql, tenant_id, rows);
};

/** One of them by its id. */
export const findOpenEndpoint: Query<
  { tenant_id: string; workload_id: string },
  OpenEndpoint | undefined
> = async (sql, { tenant_id, workload_id }) => {
  const rows = await sql.all<OpenRow>(`${open} and w.id = $2`, [tenant_id, workload_id]);
  return (await withMachines(sql, tenant_id, rows))[0];
};

/** One of them by what guests call it. */
export const findOpenModel: Query<
  { tenant_id: string; model: string },
  OpenEndpoint | undefined
> = async (sql, { tenant_id, model }) => {
  const [slug = '', ...rest] = model.split('/');
  const named = [tenant_id, slug, rest.join('/')];
  const rows = await sql.all<OpenRow>(`${open} and t.slug = $2 and w.name = $3`, named);
  return (await withMachines(sql, tenant_id, rows))[0];
};

async function withMachines(sql: Sql, asker: string, rows: OpenRow[]): Promise<OpenEndpoint[]> {
  if (rows.length === 0) return [];
  const owners = [...new Set(rows.map((row) => row.tenant_id))];
  const machines = await machinesOf(sql, asker, owners);
  return rows.flatMap((row) => {
    const { id: workload_id, owner, slug, name, created_at } = row;
    const machine_ids = machines
      .filter((machine) => machine.tenant_id === row.tenant_id && admits(machine, asker))
      .map(({ id }) => id);
    if (machine_ids.length === 0) return [];
    return [{ workload_id, model: `${slug}/${name}`, owner, created_at, machine_ids }];
  });
}

function admits({ tenant_id, sharing, invited }: MachineFacts, asker: string): boolean {
  const invited_tenant_ids = invited > 0 ? [asker] : [];
  const trust = trustLevel(asker, { owner_tenant_id: tenant_id, invited_tenant_ids });
  return mayPrompt(trust, sharing, true);
}

function machinesOf(sql: Sql, asker: string, owners: string[]): Promise<MachineFacts[]> {
  return sql.all<MachineFacts>(
    `select m.id, m.tenant_id, m.sharing,
       (select cast(count(*) as bigint) from machine_guests g
        where g.machine_id = m.id and g.tenant_id = $1) as invited
     from machines m where m.removed_at is null and m.tenant_id ${sql.in(owners, 2)}
     order by m.id limit ${machines_limit}`,
    [asker, ...owners],
  );
}

export type EndpointSharing = {
  /** Open to every tenant that its machine is shared with. */
  community: number;
  /** Slugs of the tenants that it is open to by name. */
  tenants: string[];
};

export const readEndpointSharing: Query<{ workload_id: string }, EndpointSharing> = async (
  sql,
  { workload_id },
) => {
  const row = await sql.get<Row & { opened_at: number | null }>(
    'select opened_at from workloads where id = $1',
    [workload_id],
  );
  const tenants = await sql.all<Row & { slug: string }>(
    `select t.slug from endpoint_guests g join tenants t on t.id = g.tenant_id
     where g.workload_id = $1 order by t.slug limit ${guests_limit}`,
    [workload_id],
  );
  return {
    community: row === undefined || row.opened_at === null ? 0 : 1,
    tenants: tenants.map(({ slug }) => slug),
  };
};

export type ShareEndpointArgs = {
  tenant_id: string;
  workload: string;
  /** Slugs. */
  invite: string[];
  uninvite: string[];
  /** 1 opens it to all that its machine is shared with, 0 ends that, null leaves it. */
  community: number | null;
  now: number;
  action?: Action;
};
export type ShareEndpointResult =
  | { ok: true; row: WorkloadRow; sharing: EndpointSharing }
  | { ok: false; code: 'not_found'; tenant: string | null }
  | { ok: false; code: 'endpoint_guests_full'; limit: number }
  | { ok: false; code: 'machine_not_shared'; machine: string; tenant: string };

/** Opens an endpoint to others, or closes it to them again: from their next request on. */
export async function shareEndpoint(
  sql: Sql,
  args: ShareEndpointArgs,
): Promise<ShareEndpointResult> {
  const row = await findWorkload(sql, args);
  if (row === undefined || row.state === 'deleted' || row.kind !== 'endpoint') {
    return { ok: false, code: 'not_found', tenant: null };
  }
  const invited = await tenantsOf(sql, args.invite);
  const uninvited = await tenantsOf(sql, args.uninvite);
  const unknown = [...invited, ...uninvited].find(({ id }) => id === null);
  if (unknown !== undefined) return { ok: false, code: 'not_found', tenant: unknown.slug };
  const refused = await notShared(sql, row, invited, args.community === 1);
  if (refused !== null) return refused;
  const before = await readEndpointSharing(sql, { workload_id: row.id });
  if (before.tenants.length + invited.length > guests_limit) {
    return { ok: false, code: 'endpoint_guests_full', limit: guests_limit };
  }
  for (const { id } of uninvited) {
    await sql.run('delete from endpoint_guests where workload_id = $1 and tenant_id = $2', [
      row.id,
      id,
    ]);
  }
  for (const { id } of invited) {
    if (id === row.tenant_id) continue;
    await sql.run(
      `insert into endpoint_guests (workload_id, tenant_id, created_at) values ($1, $2, $3)
       on conflict (workload_id, tenant_id) do nothing`,
      [row.id, id, args.now],
    );
  }
  if (args.community !== null) {
    await sql.run('update workloads set opened_at = $2 where id = $1', [
      row.id,
      args.community === 1 ? args.now : null,
    ]);
  }
  const sharing = await readEndpointSharing(sql, { workload_id: row.id });
  if (sharing.community === 0 && sharing.tenants.length === 0) {
    await sql.run('update workloads set shared_until = $2 where id = $1', [row.id, args.now]);
  }
  const details = { community: sharing.community, tenants: sharing.tenants.join(' ') };
  await recordAction(sql, args.action, { target: `workload:${row.id}`, details });
  return { ok: true, row, sharing };
}

async function tenantsOf(
  sql: Sql,
  slugs: string[],
): Promise<{ slug: string; id: string | null }[]> {
  if (slugs.length === 0) return [];
  const rows = await sql.all<Row & { id: string; slug: string }>(
    `select id, slug from tenants where slug ${sql.in(slugs, 1)}`,
    slugs,
  );
  return slugs.map((slug) => ({ slug, id: rows.find((one) => one.slug === slug)?.id ?? null }));
}

/** Whom no machine of the owner's would let in: told now, for else nothing would come of it. */
async function notShared(
  sql: Sql,
  row: WorkloadRow,
  invited: { slug: string; id: string | null }[],
  community: boolean,
): Promise<ShareEndpointResult | null> {
  const refused = (machine: string, tenant: string): ShareEndpointResult => ({
    ...{ ok: false, code: 'machine_not_shared' as const, machine, tenant },
  });
  const own = await sql.all<Row & { name: string; sharing: Sharing; here: number }>(
    `select m.name, m.sharing, (select count(*) from runs r where r.machine_id = m.id
         and r.workload_id = $2 and r.ended_at is null) as here
     from machines m where m.tenant_id = $1 and m.removed_at is null
     order by here desc, m.name limit ${machines_limit}`,
    [row.tenant_id, row.id],
  );
  const nearest = own[0]?.name ?? 'MACHINE';
  if (community && own.every(({ sharing }) => sharing === 'private')) {
    return refused(nearest, 'others');
  }
  for (const { slug, id } of invited) {
    if (id === null || id === row.tenant_id) continue;
    const machines = await machinesOf(sql, id, [row.tenant_id]);
    if (!machines.some((machine) => admits(machine, id))) return refused(nearest, slug);
  }
  return null;
}
