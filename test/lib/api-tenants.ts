/**
 * Three tenants with users of every role, a machine each, and an agent that does what is desired:
 * who asks in the fuzz of the API, and what there is to be asked about.
 */
import { type Role, roles } from '../../src/contract/auth.ts';
import { routes } from '../../src/contract/routes.ts';
import type { DesiredRun, ObservedRun } from '../../src/contract/sync.ts';
import { makeId } from '../../src/core/ids.ts';
import type { Ask } from './api-calls.ts';
import { settle } from './fake-clock.ts';
import { addTenant, addUser, ask, gib, inventoryOf, type Rig, select } from './rig.ts';

export type Principal = { name: string; tenant: string; role: Role; token: string };
type Tenant = { id: string; mark: string; machine_id: string };
type Asked = {
  route: Ask['route'];
  principal: Principal | null;
  path: string;
  init: { method: string; headers: Record<string, string>; body?: string };
  /** All that the caller said in it. */
  sent: string;
};

/** Things that paths name, by the parameter that names them. */
const tables: Record<string, string> = {
  workload: 'select id, tenant_id from workloads',
  key_id: 'select id, tenant_id from endpoint_keys',
  user: 'select id, tenant_id from users',
  tenant: 'select id, id as tenant_id from tenants',
  machine: 'select id, tenant_id from machines',
  invitation: 'select id, tenant_id from invitations',
  token: 'select t.id, u.tenant_id from tokens t join users u on u.id = t.user_id',
  session: 'select s.id, u.tenant_id from sessions s join users u on u.id = s.user_id',
  model_file: 'select id, tenant_id from model_files',
  request: 'select request_id as id, tenant_id from activity',
};
/** Named by whoever makes them. */
const secret_names = ['hf-token', 'other'];

export async function createTenants(rig: Rig) {
  const { tenants, principals, follow } = await invite(rig);
  rig.startController();
  const agents = await Promise.all(tenants.map((tenant) => startAgent(rig, tenant.machine_id)));
  for (const tenant of tenants) {
    const { token } =
      principals.find((one) => one.tenant === tenant.id && one.role === 'tenant-admin') ?? rig;
    await furnish(rig, token, tenant.mark);
  }
  const things = await openThings(rig);
  /** One-time links that were given out, newest last. */
  const links: string[] = [];
  const { note, hasNoted } = createNotes();
  // An operator names things of every tenant.
  const markOf = (who: Principal | null) =>
    who?.role === 'operator' ? '' : (tenants.find(({ id }) => id === who?.tenant)?.mark ?? '');
  return {
    /** What could tell of a tenant: ids, and the marks in names. */
    telling,

    /** Said by the tenant's own people before, or of a machine that its owner once shared. */
    hasSaid(tenant: string, found: string): boolean {
      if (hasNoted(tenant, found)) return true;
      const marked = tenants.find(({ mark }) => mark === found);
      return things.wasShared(marked?.id ?? found);
    },

    async ownerOf(found: string): Promise<string | null> {
      const marked = tenants.find(({ mark }) => mark === found);
      return marked?.id ?? things.ownerOf(found);
    },

    resolve(asked: Ask): Asked {
      const principal = principals[asked.who] ?? null;
      const whole = resolve(asked, principal, markOf(principal), things.target, links);
      if (principal !== null) note(principal.tenant, whole.sent);
      return whole;
    },

    /** Whoever lost the right to ask is followed by another like them. */
    async learn(asked: Asked, status: number, text: string): Promise<void> {
      const { principal } = asked;
      links.push(...(text.match(/eat_\w{36}/g) ?? []));
      // What an operator does to others stands in the activity of the operator's own tenant.
      if (principal?.role === 'operator') note(principal.tenant, text);
      if (status < 300) await things.look();
      // Who joins by a link speaks in the link's tenant, wherever they come from.
      if (status < 300 && routes[asked.route].auth.who === 'anyone') {
        for (const id of text.match(telling) ?? []) {
          const joined = await things.ownerOf(id);
          if (joined !== null) note(joined, asked.sent);
        }
      }
      if (status !== 401 || principal === null || !text.includes('sign_in_required')) return;
      await follow(principal);
      await things.look();
    },

    /** Lets controller and agents do what they have to. */
    async work(): Promise<void> {
      await settle();
      for (const agent of agents) await agent.work();
      await settle();
    },
  };
}

/** What could tell of a tenant: ids, and the marks in names. */
const telling = /[0-7][0-9a-hjkmnp-tv-z]{25}|zq[abc]/g;

/** What a tenant's own people once said may come back to them: it stands in their activity. */
function createNotes() {
  const said = new Map<string, Set<string>>();
  return {
    note(tenant: string, text: string): void {
      const known = said.get(tenant) ?? new Set();
      said.set(tenant, known);
      for (const found of text.match(telling) ?? []) known.add(found);
    },
    hasNoted: (tenant: string, found: string) => said.get(tenant)?.has(found) === true,
  };
}

/** The tenants with their machines, and one user for each role in each. */
async function invite(rig: Rig) {
  const { store, random, clock } = rig;
  const newId = () => makeId(clock.now(), random.bytes(10));
  const tenants: Tenant[] = [];
  const principals: Principal[] = [];
  let users = 0;
  async function addPrincipal(tenant: Tenant, role: Role): Promise<Principal> {
    users += 1;
    const name = `user${users}-${tenant.mark}`;
    const { token } = await addUser(store, random, { tenant_id: tenant.id, name, role });
    return { name, tenant: tenant.id, role, token };
  }
  for (const mark of ['zqa', 'zqb', 'zqc']) {
    const first = mark === 'zqa';
    const id = first ? rig.ids.tenant_id : newId();
    const machine_id = first ? rig.ids.machine_id : newId();
    if (!first) {
      await addTenant(store, `t-${mark}`, id);
      const facts = { tenant_id: id, region: 'local', now: clock.now() };
      await store.transact('addMachine', { ...facts, id: machine_id, name: `desk-${mark}` });
    }
    const tenant = { id, mark, machine_id };
    tenants.push(tenant);
    for (const role of first ? roles : roles.filter((one) => one !== 'operator')) {
      principals.push(await addPrincipal(tenant, role));
    }
  }
  return {
    ...{ tenants, principals },
    async follow(principal: Principal): Promise<void> {
      const tenant = tenants.find(({ id }) => id === principal.tenant);
      const place = principals.indexOf(principal);
      if (tenant === undefined || place < 0) return;
      principals[place] = await addPrincipal(tenant, principal.role);
    },
  };
}

type Target = (
  name: string,
  pick: Ask['picks'][number] | undefined,
  who: Principal | null,
) => string;

/** What is there, and whose it is. */
async function openThings({ store }: Rig) {
  const owners = new Map<string, string>();
  /** Machines that were shared, and whose they are: both are shown to others then. */
  const shared = new Set<string>();
  const things = new Map<string, { id: string; tenant_id: string }[]>();
  async function look(): Promise<void> {
    for (const [name, text] of Object.entries(tables)) {
      const rows = await select<{ id: string; tenant_id: string }>(store, text);
      things.set(name, rows);
      for (const { id, tenant_id } of rows) owners.set(id, tenant_id);
    }
    const text = "select id, tenant_id from machines where sharing <> 'private'";
    for (const { id, tenant_id } of await select<{ id: string; tenant_id: string }>(store, text)) {
      shared.add(id).add(tenant_id);
    }
  }
  await look();
  const target: Target = (name, pick, who) => {
    if (pick?.text != null) return pick.text;
    if (name === 'secret') return secret_names[(pick?.pick ?? 0) % secret_names.length] ?? '';
    if (name === 'gpu_class') return 'cpu-4c-16g';
    if (name === 'image') return 'python';
    const all = things.get(name) ?? [];
    const own = all.filter(({ tenant_id }) => tenant_id === who?.tenant);
    const from = pick?.own === true ? own : all;
    return from[(pick?.pick ?? 0) % Math.max(1, from.length)]?.id ?? `nothing-${pick?.pick}`;
  };
  return {
    ...{ look, target, wasShared: (id: string) => shared.has(id) },
    async ownerOf(found: string): Promise<string | null> {
      if (!owners.has(found)) await look();
      return owners.get(found) ?? null;
    },
  };
}

function resolve(
  asked: Ask,
  principal: Principal | null,
  mark: string,
  target: Target,
  links: readonly string[],
): Asked {
  const { method, path } = routes[asked.route];
  let next = 0;
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const text = target(name, asked.picks[next], principal);
    next += 1;
    return encodeURIComponent(text.toWellFormed());
  });
  const query = new URLSearchParams(
    Object.entries(asked.query).map(([name, text]): [string, string] => {
      const [, whose, pick, what = ''] = /^@(own|any):(\d+):(\w+)$/.exec(text) ?? [];
      if (whose === undefined) return [name, text];
      const chosen = { pick: Number(pick), own: whose === 'own', text: null };
      return [name, target(what, chosen, principal)];
    }),
  ).toString();
  const body = bodyOf(asked, mark)?.replace('@link', links.at(-1 - (asked.who % 3)) ?? '');
  const headers: Record<string, string> = {};
  if (principal !== null) headers.authorization = `Bearer ${principal.token}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  for (const [name, text] of Object.entries(asked.headers)) {
    // What a header cannot hold never leaves a client.
    headers[name] = text.replace(/[^\x20-\x7e]/g, '').trim();
  }
  const init = { method: method.toUpperCase(), headers };
  return {
    ...{ route: asked.route, principal },
    path: query === '' ? filled : `${filled}?${query}`,
    init: body === undefined || method === 'get' ? init : { ...init, body },
    sent: `${decodeURIComponent(filled)} ${query} ${body} ${JSON.stringify(headers)}`,
  };
}

/** Something of each kind, so that there is what the calls are about. */
async function furnish(rig: Rig, token: string, mark: string): Promise<void> {
  const post = async (method: string, path: string, body: unknown) => {
    const answer = await ask(rig, method, path, { token, body });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`);
  };
  for (const name of [`one-${mark}`, `two-${mark}`]) {
    await post('POST', '/v1/workloads', { kind: 'endpoint', model: 'smollm2-135m', name });
    await post('POST', `/v1/workloads/${name}/keys`, {});
  }
  await post('PUT', '/v1/secrets/hf-token', { value: `hf_${mark}${mark}` });
  await post('POST', '/v1/invitations', { role: 'member' });
}

/** Names are given the tenant's mark, so that they tell whose they are. */
function bodyOf(one: Ask, mark: string): string | undefined {
  if (one.raw !== null) return one.raw.toWellFormed();
  if (one.body === undefined) return undefined;
  const { body } = one;
  const marked =
    typeof body === 'object' && body !== null && !Array.isArray(body) && 'name' in body
      ? {
          ...body,
          ...(typeof body.name === 'string' ? { name: `${body.name.slice(0, 40)}${mark}` } : {}),
        }
      : body;
  return JSON.stringify(marked);
}

async function startAgent(rig: Rig, machine_id: string) {
  const inventory = inventoryOf({ cpu_millis: 8000, memory_bytes: 16 * gib });
  const greeted = await rig.sync.hello(machine_id, {
    ...{ boot_id: 'b', hello_id: machine_id, known: null, inventory },
  });
  if (greeted.outcome !== 'greeted') throw new Error(greeted.outcome);
  const { outcome: _, ...identity } = greeted;
  const over = AbortSignal.abort();
  let observed: ObservedRun[] = [];
  let seq = 0;
  return {
    async work(): Promise<void> {
      for (let round = 0; round < 2; round += 1) {
        seq += 1;
        const words = { boot_id: 'b', have_generation: -1, inventory: null };
        const reply = await rig.sync.sync(
          machine_id,
          { ...identity, ...words, seq, observed },
          over,
        );
        if (reply.outcome === 'hello_again') return; // the machine was removed
        if (reply.outcome !== 'accepted') throw new Error(reply.outcome);
        observed = (reply.desired ?? []).flatMap(observe);
      }
    },
  };
}

/** A run that is wanted is ready at once; one that is not has ended, and is then gone. */
function observe({ action, workload_id, replica, run_epoch }: DesiredRun): ObservedRun[] {
  const run = { workload_id, replica, run_epoch };
  const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
  return action === 'run' ? [{ ...run, ...facts, state: 'ready' as const }] : [];
}
