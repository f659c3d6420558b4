/**
 * Starts a run: image, volume, network, folder, container.
 *
 * Invariants: what this program left half-made when it was killed is made anew; a container of the
 * same name that is not ours is left alone and named; a start that fails or is called off leaves
 * neither a container nor a folder; the workspace and what is in it stay in any case.
 */
import { isAbsolute } from 'node:path';
import { parseRunName, runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import type { RunSpec } from '../driver.ts';
import { isPortName } from '../native/socket.ts';
import { containerName, inspectContainer, type RunLabels, readLabels } from './container.ts';
import { createBody } from './create-body.ts';
import type { Engine } from './engine.ts';
import { asStartError, driverError, startFailed } from './engine-error.ts';
import { gpuNames, proveGpus } from './gpus.ts';
import type { Image, Images } from './images.ts';
import { ensureFencedNetwork, type Fence, type FencedNetwork, fenceMissing } from './network.ts';
import { makeRunFolder, readEnd, removeRunFolder, runFolder } from './run-folder.ts';
import { removeForSure } from './stop.ts';
import { ensureVolume, ownWorkspace } from './volume.ts';

export type StartDeps = {
  folder: string;
  install_id: string;
  engine: Engine;
  images: Images;
  fence: Fence | null;
  clock: Clock;
};

const slow_call_ms = 120_000;

export async function startRun(deps: StartDeps, spec: RunSpec, signal: AbortSignal): Promise<void> {
  const { engine, install_id } = deps;
  const at = runFolder(deps.folder, spec.run);
  const image = checkSpec(spec);
  try {
    if (readEnd(at) !== null) return;
    if (!(await mayCreate(deps, spec))) return;
    goOn(signal);
    const gpus = await gpuNames(engine, spec.gpu_uuids ?? []);
    const found = await deps.images.ensure(image, signal);
    goOn(signal);
    const network = await networkFor(deps, spec);
    const volume = spec.workspace
      ? await ensureVolume(engine, install_id, spec.run.workload_id)
      : null;
    const labels = labelsOf(install_id, spec);
    makeRunFolder(at, labels);
    const places = { sockets: at.sockets, volume, network: network?.name ?? null };
    const body = createBody(spec, { labels, image: found, gpus, ...places });
    const id = await createAndBegin(deps, spec, found, body, signal);
    if (network !== null) await proveFence(deps, network, id);
    await proveOwnGpus(deps, spec, id);
  } catch (error) {
    if (!(await isThere(deps, spec))) removeRunFolder(at);
    throw asStartError(error, image);
  }
}

async function createAndBegin(
  { engine, clock }: StartDeps,
  spec: RunSpec,
  image: Image,
  json: unknown,
  signal: AbortSignal,
): Promise<string> {
  const name = containerName(spec.run);
  const query = { name };
  const call = { method: 'POST', path: '/containers/create', query, json } as const;
  const made = (await engine.json({ ...call, timeout_ms: slow_call_ms })) as { Id?: string } | null;
  const id = made?.Id ?? name;
  try {
    if (spec.workspace) await ownWorkspace(engine, id, spec.workspace);
    goOn(signal);
    const path = `/containers/${id}/start`;
    await engine.json({ method: 'POST', path, timeout_ms: slow_call_ms });
    return id;
  } catch (error) {
    await removeForSure({ engine, clock }, id);
    throw asStartError(error, image.reference);
  }
}

/** What came past the fence does not go on. */
async function proveFence(deps: StartDeps, network: FencedNetwork, id: string): Promise<void> {
  try {
    const found = await inspectContainer(deps.engine, id);
    if (found !== null) await deps.fence?.prove(network, found.pid);
  } catch (error) {
    await removeForSure(deps, id);
    throw fenceMissing(error);
  }
}

async function proveOwnGpus(deps: StartDeps, spec: RunSpec, id: string): Promise<void> {
  try {
    await proveGpus(deps, id, spec.gpu_uuids ?? []);
  } catch (error) {
    await removeForSure(deps, id);
    throw error;
  }
}

/** False where the run is there already. Clears away what was made of it and never begun. */
async function mayCreate(deps: StartDeps, spec: RunSpec): Promise<boolean> {
  const name = containerName(spec.run);
  const found = await inspectContainer(deps.engine, name);
  if (found === null) return true;
  if (readLabels(found.labels, deps.install_id) === null) {
    throw driverError('container_name_taken', { container: name });
  }
  if (found.status !== 'created') return false;
  await removeForSure(deps, found.id);
  return true;
}

/** Whether something of ours is left in the engine. In doubt there is. */
async function isThere({ engine, install_id }: StartDeps, spec: RunSpec): Promise<boolean> {
  try {
    const found = await inspectContainer(engine, containerName(spec.run));
    return found !== null && readLabels(found.labels, install_id) !== null;
  } catch {
    return true;
  }
}

function checkSpec(spec: RunSpec): string {
  const { argv, env, image, mounts, ports, tcp_ports = {} } = spec;
  if (parseRunName(runName(spec.run)) === null) throw startFailed('that is no name of a run');
  if (!image) throw startFailed('a container needs an image');
  const names = Object.keys(env);
  const paths = mounts.flatMap(({ source, target }) => [source, target]);
  const texts = [...argv, ...names, ...Object.values(env), ...paths];
  if (texts.some((text) => text.includes('\0'))) throw startFailed('a text in it holds a NUL');
  if (names.some((name) => name === '' || name.includes('='))) {
    throw startFailed('a variable has no name');
  }
  const target = spec.workspace?.target;
  if ([...paths, ...(target === undefined ? [] : [target])].some((path) => !isAbsolute(path))) {
    throw startFailed('a path in it is not absolute');
  }
  if (target === '/') throw startFailed('a workspace cannot take the place of all');
  if (![...ports, ...Object.keys(tcp_ports)].every(isPortName)) {
    throw startFailed('a port has no valid name');
  }
  if (spec.network === 'host') throw startFailed('no container shares the network of its machine');
  if (spec.network === 'none' && Object.keys(tcp_ports).length > 0) {
    throw startFailed('without a network it can open no TCP port');
  }
  return image;
}

async function networkFor(deps: StartDeps, spec: RunSpec): Promise<FencedNetwork | null> {
  if (spec.network !== 'fenced') return null;
  return ensureFencedNetwork(deps.engine, deps.install_id, deps.fence);
}

function labelsOf(install_id: string, spec: RunSpec): RunLabels {
  const { run, spec_hash, ports, tcp_ports = {}, workspace } = spec;
  return { install_id, run, spec_hash, ports, tcp_ports, workspace: workspace?.target ?? null };
}

function goOn(signal: AbortSignal): void {
  if (signal.aborted) throw startFailed('it was called off');
}
