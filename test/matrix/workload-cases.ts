/**
 * Cases of the matrix: workloads, keys, machines, models.
 */
import type { RouteName } from '../../src/contract/routes.ts';
import { ask } from '../lib/rig.ts';
import type { Asked, Case, Owner } from './cases.ts';
import type { World } from './world.ts';

const endpoint = { kind: 'endpoint', model: 'smollm2-135m' };
const plain = (how: Case['ask'] = async () => ({})): Case => ({
  ask: how,
  reach: null,
  operator: false,
});
/** Of a tenant, and of nobody outside of it: an operator runs the place, and does not look in. */
const within = (how: Case['ask']): Case => ({ ask: how, reach: 'tenant', operator: false });

async function launched(world: World, { place }: Owner): Promise<string> {
  const { token } = place.people.member;
  const launch = (body: object) => ask(world.rig, 'POST', '/v1/workloads', { token, body });
  let made = await launch(endpoint);
  // A case before this one may have moved a machine of this tenant to another region.
  if (made.body.error?.code === 'region_needed') {
    made = await launch({ ...endpoint, region: 'local' });
  }
  if (typeof made.body.id !== 'string') throw new Error(made.text);
  return made.body.id;
}

/** Of its tenant's member, for an endpoint that was launched for it. */
async function modelKey(world: World, owner: Owner): Promise<string> {
  const models = [await launched(world, owner)];
  const { token } = owner.place.people.member;
  const { body } = await ask(world.rig, 'POST', '/v1/model-keys', { token, body: { models } });
  return String(body.id);
}

/** Whose web page is there to be opened. */
async function withSite(world: World, owner: Owner): Promise<string> {
  const id = await launched(world, owner);
  const to = "kind = 'notebook', state = 'running', run_epoch = 1";
  await world.write(`update workloads set ${to} where id = $1`, [id]);
  await world.write(
    `insert into runs (workload_id, replica, run_epoch, machine_id, driver, isolation, placed_class,
       wanted, observed, ready_at, created_at)
     values ($1, 0, 1, $2, 'sim', 'weak', 'x', 'run', 'present', 1, 1)`,
    [id, world.rig.ids.machine_id],
  );
  return id;
}

/** A file in a run that runs. */
const inRun = (path: string) =>
  within(async (world, owner) => {
    const id = await withSite(world, owner);
    return { path: { workload: id }, query: { path }, object: id };
  });

const workload = (more: Omit<Asked, 'path' | 'object'> = {}) =>
  within(async (world, owner) => {
    const id = await launched(world, owner);
    return { path: { workload: id }, object: id, ...more };
  });

/** A machine of the owner's tenant, for this request alone. */
async function machineOf(world: World, { place }: Owner): Promise<string> {
  const { tenant_id } = place;
  const name = world.fresh();
  const now = world.rig.clock.now();
  const machine = { id: world.newId(), tenant_id, name, region: 'local', now };
  await world.rig.store.transact('addMachine', machine);
  return name;
}

/** Something done to a machine of the owner's, which is shared with nobody and runs nothing. */
const machine = (more: Omit<Asked, 'path' | 'object'> = {}) =>
  within(async (world, owner) => {
    const name = await machineOf(world, owner);
    return { path: { machine: name }, object: name, ...more };
  });

const modelFile = within(async (world, owner) => {
  const { token } = owner.place.people.member;
  const body = { model: 'smollm2-135m', machine: await machineOf(world, owner) };
  const pulled = await ask(world.rig, 'POST', '/v1/model-files', { token, body });
  if (typeof pulled.body.id !== 'string') throw new Error(pulled.text);
  return { path: { model_file: pulled.body.id }, object: pulled.body.id };
});

export const workloadCases: Partial<Record<RouteName, Case>> = {
  plan: plain(async () => ({ body: endpoint })),
  launch: plain(async () => ({ body: endpoint })),
  listWorkloads: plain(),
  showWorkload: workload(),
  stopWorkload: workload(),
  startWorkload: within(async (world, owner) => {
    const id = await launched(world, owner);
    const { token } = owner.place.people.member;
    await ask(world.rig, 'POST', `/v1/workloads/${id}/stop`, { token });
    return { path: { workload: id }, object: id };
  }),
  deleteWorkload: workload(),
  openSite: within(async (world, owner) => {
    const id = await withSite(world, owner);
    return { path: { workload: id }, object: id };
  }),
  readFile: inRun('/tmp/x'),
  writeFile: inRun('/tmp/x'),
  removeFile: inRun('/tmp/x'),
  showFile: inRun('/tmp/x'),
  listFiles: inRun('/tmp'),
  makeFolder: inRun('/tmp/new'),
  showSsh: plain(),
  listEvents: workload(),
  readLogs: workload(),
  readStats: workload(),
  setIdlePolicy: workload({ body: { idle_policy: { after_ms: 3600_000 } } }),
  setFallback: workload({ body: { fallback: [] } }),
  scaleEndpoint: workload({ body: { replicas: 2 } }),
  makeRoom: workload(),
  followEvents: plain(),
  createKey: workload({ body: {} }),
  listKeys: workload(),
  revokeKey: within(async (world, owner) => {
    const id = await launched(world, owner);
    const { token } = owner.place.people.member;
    const path = `/v1/workloads/${id}/keys`;
    const { body } = await ask(world.rig, 'POST', path, { token, body: {} });
    return { path: { workload: id, key_id: String(body.id) }, object: id };
  }),
  showEndpointSharing: workload(),
  shareEndpoint: workload({ body: {} }),
  changeAliases: workload({ body: { remove: ['none'] } }),
  listOpenModels: plain(),
  createModelKey: within(async (world, owner) => {
    const id = await launched(world, owner);
    return { body: { models: [id] }, object: id };
  }),
  setModelLimits: workload({ body: { concurrency: 4 } }),
  listModelKeys: plain(),
  listModelRoutes: plain(),
  limitModelKey: within(async (world, owner) => {
    const key_id = await modelKey(world, owner);
    return { path: { key_id }, body: { rpm: 60 }, object: key_id };
  }),
  revokeModelKey: within(async (world, owner) => {
    const key_id = await modelKey(world, owner);
    return { path: { key_id }, object: key_id };
  }),
  exportWorkload: workload(),
  listModelFiles: plain(),
  pullModelFile: within(async (world, owner) => {
    const machine = await machineOf(world, owner);
    return { body: { model: 'smollm2-135m', machine }, object: machine };
  }),
  showModelFile: modelFile,
  validateModelFile: modelFile,
  removeModelFile: modelFile,
  listMachines: plain(),
  refreshMachine: within(async (world, owner) => {
    world.rig.apiDeps.lookAnew = async () => true; // nobody looks here
    const machine = await machineOf(world, owner);
    return { path: { machine }, object: machine };
  }),
  shareMachine: machine({ body: { sharing: 'community' } }),
  giveMachine: within(async (world, owner) => {
    const name = await machineOf(world, owner);
    const to = owner.place === world.home ? world.away.slug : world.home.slug;
    return { path: { machine: name }, body: { to }, object: name };
  }),
  listRegions: plain(),
  setMachineRegion: {
    ask: async (world, owner) => {
      const name = await machineOf(world, owner);
      return { path: { machine: name }, body: { region: 'attic' }, object: name };
    },
    ...{ reach: 'tenant', operator: true },
  },
  drainMachine: machine({ body: {} }),
  undrainMachine: within(async (world, owner) => {
    const name = await machineOf(world, owner);
    await world.write('update machines set drained_at = 1 where name = $1', [name]);
    return { path: { machine: name }, object: name };
  }),
  renameMachine: within(async (world, owner) => {
    const name = await machineOf(world, owner);
    return { path: { machine: name }, body: { name: world.fresh() }, object: name };
  }),
  limitMachine: machine({ body: { cpu_millis: 1000 } }),
  fenceMachine: within(async (world, owner) => {
    const name = await machineOf(world, owner);
    const body = { powered_off: true, confirm: name };
    return { path: { machine: name }, body, object: name };
  }),
  removeMachine: machine(),
  reclaimMachine: machine({ body: {} }),
  releaseMachine: within(async (world, owner) => {
    const name = await machineOf(world, owner);
    const { token } = owner.place.people.member;
    await ask(world.rig, 'POST', `/v1/machines/${name}/reclaim`, { token, body: {} });
    return { path: { machine: name }, object: name };
  }),
  showCatalog: plain(),
};
