/**
 * A launch made complete: every default filled in, what a hub says of its model, the machine that
 * it names, and its fallbacks worked out (ADR-0059).
 *
 * Invariants: nothing is recorded; a fallback that can never work is refused here, with the reason
 * that asking for it alone would give; a machine that the tenant may not know of is no machine.
 */
import { EinsoraError } from '../contract/errors.ts';
import type { Launch } from '../contract/workloads.ts';
import { type Catalog, catalogIn, findClass } from '../core/catalog.ts';
import {
  changesOf,
  default_fallback_after_ms,
  type FallbackStep,
  parseStep,
  type StepSort,
} from '../core/fallback.ts';
import { runtimesOf } from '../core/images.ts';
import { maySee, trustLevel } from '../core/trust.ts';
import type { AskedMachine, WorkloadSpec } from '../core/workload.ts';
import type { ApiDeps } from './api-deps.ts';
import { lookModel } from './launch-model.ts';
import type { RemoteModel } from './model-sources.ts';
import { completeSpec, type SpecResult } from './request-spec.ts';

export type CompleteLaunch = SpecResult & { remote: RemoteModel | null };
export type AskedFallback = Pick<Launch, 'fallback' | 'fallback_after' | 'fallback_return'>;

export async function completeLaunch(
  deps: ApiDeps,
  tenant_id: string,
  asked: Launch,
): Promise<CompleteLaunch> {
  const complete = await completeOne(deps, tenant_id, asked, null);
  if (!asked.fallback?.length && !asked.fallback_return) return complete;
  const spec = await withFallback(deps, tenant_id, complete, asked);
  return { ...complete, spec };
}

/** A spec that is recorded already, with other fallbacks. */
export async function specWithFallback(
  deps: ApiDeps,
  tenant_id: string,
  spec: WorkloadSpec,
  asked: AskedFallback,
  has_home: boolean,
): Promise<WorkloadSpec> {
  for (const step of asked.fallback ?? []) {
    const sort = parseStep(step)?.sort;
    if (has_home && (sort === 'machine' || sort === 'region')) {
      throw unusable(step, 'its disk is on a machine already');
    }
  }
  if (!asked.fallback?.length) return withFallback(deps, tenant_id, { spec, remote: null }, asked);
  const remote = await lookModel(deps, tenant_id, launchOf(spec));
  return withFallback(deps, tenant_id, { spec, remote }, asked);
}

/** `known`: what is said of the model already, where it is the same one. */
async function completeOne(
  deps: ApiDeps,
  tenant_id: string,
  asked: Launch,
  known: RemoteModel | null,
): Promise<CompleteLaunch> {
  const remote = known ?? (await lookModel(deps, tenant_id, asked));
  const region = await regionOf(deps, tenant_id, asked.region);
  const catalog = classesOf(asked, region, await deps.catalogs.read());
  const result = completeSpec(asked, deps.fileBytes, remote, catalog, region);
  if (asked.machine === undefined) return { ...result, remote };
  const machine = await findMachine(deps, tenant_id, asked.machine);
  return { ...result, spec: { ...result.spec, machine }, remote };
}

/** Where it is to run: as asked, or the only region that there is for this tenant. */
async function regionOf(
  { catalogs }: ApiDeps,
  tenant_id: string,
  asked: string | undefined,
): Promise<string> {
  let known = await catalogs.regions(tenant_id);
  if (asked !== undefined && !known.includes(asked)) {
    // A machine may have been added a moment ago.
    catalogs.changed();
    known = await catalogs.regions(tenant_id);
    if (known.includes(asked)) return asked;
    const names = known.join(', ') || 'none yet';
    throw new EinsoraError('unknown_region', { region: asked, known: names });
  }
  if (asked !== undefined) return asked;
  if (known.length > 1) throw new EinsoraError('region_needed', { known: known.join(', ') });
  // Who has no machine yet waits where the deployment is.
  const [only] = known.length === 1 ? known : await onlyOne(catalogs);
  return only ?? 'local';
}

async function onlyOne(catalogs: ApiDeps['catalogs']): Promise<readonly string[]> {
  const all = await catalogs.allRegions();
  return all.length === 1 ? all : [];
}

/** The catalog as it is in a region; a class that is not offered there is refused. */
function classesOf({ gpu_class }: Launch, region: string, catalog: Catalog): Catalog {
  const here = catalogIn(region, catalog);
  if (gpu_class === undefined) return here;
  if (findClass(gpu_class, catalog) !== null && findClass(gpu_class, here) === null) {
    throw new EinsoraError('class_not_in_region', { class: gpu_class, region });
  }
  return here;
}

async function findMachine(deps: ApiDeps, tenant_id: string, asked: string): Promise<AskedMachine> {
  const known = (await deps.machines.forPlan(tenant_id)).filter((machine) =>
    maySee(trustLevel(tenant_id, machine), machine),
  );
  const named = known.filter(({ id, name }) => id === asked || name === asked);
  // Of two with one name, a machine of one's own is meant.
  const [found] = named.sort((a, b) => rank(a.owner_tenant_id) - rank(b.owner_tenant_id));
  if (found === undefined) throw new EinsoraError('unknown_machine', { machine: asked });
  return { id: found.id, name: found.name };

  function rank(owner: string): number {
    return owner === tenant_id ? 0 : 1;
  }
}

type Base = Pick<CompleteLaunch, 'spec' | 'remote'>;

async function withFallback(
  deps: ApiDeps,
  tenant_id: string,
  base: Base,
  { fallback: texts = [], fallback_after, fallback_return = false }: AskedFallback,
): Promise<WorkloadSpec> {
  const { spec } = base;
  if (texts.length === 0) {
    if (fallback_return) throw badRequest('fallback_return: there is no fallback to return from');
    return { ...spec, fallback: [], fallback_after_ms: 0, fallback_return: false };
  }
  if (fallback_return && spec.kind !== 'endpoint') {
    throw badRequest('fallback_return: only an endpoint goes back by itself');
  }
  const fallback: FallbackStep[] = [];
  for (const [index, step] of texts.entries()) {
    if (texts.indexOf(step) !== index) throw unusable(step, 'it is there twice');
    fallback.push({ step, set: await stepSet(deps, tenant_id, base, step) });
  }
  const fallback_after_ms = fallback_after ?? default_fallback_after_ms;
  return { ...spec, fallback, fallback_after_ms, fallback_return };
}

/** What one step changes. */
async function stepSet(
  deps: ApiDeps,
  tenant_id: string,
  { spec, remote }: Base,
  step: string,
): Promise<FallbackStep['set']> {
  const parsed = parseStep(step);
  if (parsed === null) {
    const all = 'class:NAME, cpu, machine:NAME, replica, model:NAME, region:NAME';
    throw unusable(step, `it is none of ${all}`);
  }
  const useless = whyUseless(spec, parsed.sort);
  if (useless !== null) throw unusable(step, useless);
  // Another replica answers where one cannot: that is the gateway's, and changes no placement.
  if (parsed.sort === 'replica') return {};
  const catalog = await deps.catalogs.read();
  const asked = askedBy(spec, parsed.sort, parsed.name, catalog);
  const known = parsed.sort === 'model' ? null : remote;
  const changed = await completeOne(deps, tenant_id, asked, known).catch((error: unknown) => {
    throw error instanceof EinsoraError ? unusable(step, withoutStop(error.message)) : error;
  });
  const { kind, image_id, accelerator } = changed.spec;
  const forms = runtimesOf(kind, image_id, catalog.images);
  if (!forms.some((form) => accelerator === null || form.accelerator === accelerator)) {
    throw unusable(step, `the image ${image_id} has no form for ${accelerator}`);
  }
  const set = changesOf(spec, changed.spec);
  if (Object.keys(set).length === 0) throw unusable(step, 'that is what is asked for already');
  return set;
}

function whyUseless(spec: WorkloadSpec, sort: StepSort): string | null {
  if (sort === 'machine' && spec.machine === null) return 'no machine is asked for (--machine)';
  if (sort === 'model' && spec.kind !== 'endpoint') return `a ${spec.kind} has no model`;
  if (sort === 'cpu' && spec.gpu_count === 0 && (spec.accelerator ?? 'cpu') === 'cpu') {
    return 'no GPU is asked for';
  }
  if (sort === 'replica' && spec.replicas < 2) return 'it has one replica only';
  return null;
}

/** The launch that asks for the step alone. */
function askedBy(spec: WorkloadSpec, sort: StepSort, name: string, catalog: Catalog): Launch {
  const asked = launchOf(spec);
  switch (sort) {
    case 'machine':
      return { ...asked, machine: name };
    case 'region':
      return { ...omit(asked, 'machine'), region: name };
    case 'model':
      return { ...asked, model: name };
    case 'class': {
      const accelerator = findClass(name, catalog)?.accelerator;
      const kept = omit(omit(asked, 'accelerator'), 'gpu_count');
      const said = spec.accelerator === null || accelerator === undefined ? {} : { accelerator };
      const count = accelerator === 'nvidia' && spec.gpu_count > 1 ? spec.gpu_count : null;
      const counted = count === null ? {} : { gpu_count: count };
      return { ...kept, ...said, ...counted, gpu_class: name };
    }
    default: {
      const kept = omit(omit(asked, 'gpu_class'), 'gpu_count');
      // An endpoint needs what its model needs; anything else has the size it had, if there is one.
      const size = spec.kind === 'endpoint' ? {} : sizeWithin(spec, catalog);
      return { ...kept, ...size, accelerator: 'cpu' };
    }
  }
}

/** Of what a spec has, as much as there is of CPU classes. */
function sizeWithin({ cpu_millis, memory_bytes }: WorkloadSpec, { classes }: Catalog) {
  const of_cpu = classes.filter(({ accelerator }) => accelerator === 'cpu');
  const most = (name: 'cpu_millis' | 'memory_bytes') =>
    Math.max(1, ...of_cpu.map((entry) => entry[name]));
  return {
    cpu_millis: Math.min(cpu_millis, most('cpu_millis')),
    memory_bytes: Math.min(memory_bytes, most('memory_bytes')),
  };
}

/** What a spec asks of placement, as a launch. */
function launchOf(spec: WorkloadSpec): Launch {
  const { kind, name, region, model_params, gpu_count } = spec;
  return {
    ...{ kind, name, region, model_params, gpu_count },
    ...(spec.model === null ? {} : { model: spec.model }),
    ...(spec.accelerator === null ? {} : { accelerator: spec.accelerator as 'cpu' }),
    ...(spec.gpu_class === null ? {} : { gpu_class: spec.gpu_class }),
    ...(spec.image_id === null ? {} : { image_id: spec.image_id }),
    ...(spec.machine === null ? {} : { machine: spec.machine.id }),
  };
}

function omit<K extends keyof Launch>(
  launch: Launch,
  name: K,
): Omit<Launch, K> & { kind: Launch['kind'] } {
  const { [name]: _, ...rest } = launch;
  return rest as Omit<Launch, K> & { kind: Launch['kind'] };
}

function unusable(step: string, why: string): EinsoraError {
  return new EinsoraError('fallback_unusable', { step, why });
}

function badRequest(problem: string): EinsoraError {
  return new EinsoraError('bad_request', { problem });
}

function withoutStop(sentence: string): string {
  const text = sentence.replace(/\.$/, '');
  return text.charAt(0).toLowerCase() + text.slice(1);
}
