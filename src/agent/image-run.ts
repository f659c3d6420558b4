/**
 * What runs of an image have in common: the image brought, its variables filled in, the run begun.
 *
 * Invariants: a driver's refusal is a value with its own code; values of secrets go into the run's
 * environment and nowhere else: not into the label of its spec, not into what is said of it.
 */
import type { InstanceSpec, NotebookSpec, RunSecrets, RunTarget } from '../contract/sync.ts';
import type { ImageRuntime } from '../core/images.ts';
import { registryOf } from '../core/registries.ts';
import { type Driver, DriverError, type RunSpec } from '../drivers/driver.ts';
import { digest } from '../lib/secret.ts';
import { type Failure, failure, type Order, type Outcome } from './run-work.ts';
import type { Stages } from './stages.ts';

export type ImageOrder = Order<NotebookSpec> | Order<InstanceSpec>;

/** Brings an image where it is not here yet: the stage `image`. */
export async function bringImage(
  driver: Driver,
  reference: string,
  stages: Stages,
  signal: AbortSignal,
  secrets: RunSecrets | null = null,
): Promise<Outcome> {
  if (driver.bringImage === undefined) return { ok: true };
  stages.begin('image');
  try {
    const onProgress = (done: number, total: number | null) => stages.progress(done, total);
    const sign_in = signInOf(reference, secrets);
    stages.done(await driver.bringImage(reference, onProgress, signal, sign_in));
    return { ok: true };
  } catch (error) {
    return refusedBy(error, { image: reference });
  }
}

function signInOf(reference: string, secrets: RunSecrets | null) {
  const registry = registryOf(reference);
  const [, user, password] = /^([^:]*):(.*)$/s.exec(secrets?.registries?.[registry] ?? '') ?? [];
  return user === undefined || password === undefined ? null : { registry, user, password };
}

/** Starts a run, labelled by what it is but for its variables. */
export async function startRun(
  driver: Driver,
  spec: Omit<RunSpec, 'spec_hash'>,
  signal: AbortSignal,
): Promise<Outcome> {
  const labelled = { ...spec, env: Object.keys(spec.env).sort() };
  try {
    await driver.start({ ...spec, spec_hash: digest(JSON.stringify(labelled)) }, signal);
    return { ok: true };
  } catch (error) {
    return refusedBy(error, { image: spec.image ?? null });
  }
}

/** A refusal of the driver as a value. Whatever else is thrown is a fault of ours. */
export function refusedBy(error: unknown, details: Failure['details']): Failure {
  if (!(error instanceof DriverError)) throw error;
  return failure(error.code, { why: error.message, ...details, ...error.details });
}

/** The run's variables, with the secrets that they take. */
export function variablesOf({ spec, secrets }: ImageOrder): Variables {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(spec.env)) {
    const text = typeof value === 'string' ? value : secrets?.values[value.secret];
    if (text === undefined) {
      const secret = typeof value === 'string' ? name : value.secret;
      return failure('unknown_secret', { secret });
    }
    env[name] = text;
  }
  return { ok: true, env };
}
type Variables = { ok: true; env: Record<string, string> } | Failure;

/** Caps, its GPUs, and the workspace that outlives the run. */
export function placeOf(spec: NotebookSpec | InstanceSpec, runtime: ImageRuntime) {
  const { memory_bytes, cpu_millis, disk_bytes, gpu_uuids = [] } = spec;
  const { uid, gid, workspace } = runtime;
  return {
    ...{ memory_bytes, cpu_millis, ports: [...runtime.ports] },
    ...(gpu_uuids.length === 0 ? {} : { gpu_uuids }),
    tcp_ports: { ...runtime.tcp_ports },
    workspace: workspace === null ? null : { target: workspace, uid, gid, disk_bytes },
  };
}

export function acceleratorOf({ accelerator }: RunTarget): ImageRuntime['accelerator'] | null {
  const known = ['cpu', 'nvidia', 'apple'] as const;
  return known.find((one) => one === accelerator) ?? null;
}
