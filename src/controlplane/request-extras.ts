/**
 * What a launch says beside its model and size, checked: image, command, variables, key, disk.
 *
 * Invariants: pure; what a kind cannot use is refused, never dropped; a text that is neither an
 * image of the catalog nor a registry's reference is refused before anything asks a registry.
 */
import { EinsoraError } from '../contract/errors.ts';
import { limits } from '../contract/limits.ts';
import { shown_value } from '../contract/workload-extras.ts';
import type { Launch, ShownSpec } from '../contract/workloads.ts';
import { builtin_catalog, type Catalog, defaultAmounts } from '../core/catalog.ts';
import { defaultImage, findImage, type ImageSet, isImageReference } from '../core/images.ts';
import { parseAuthorizedKeys } from '../core/ssh-key.ts';
import type { EnvValue, Kind, WorkloadSpec } from '../core/workload.ts';

type Extras = Pick<
  WorkloadSpec,
  'image_id' | 'command' | 'env' | 'ssh_public_key' | 'idle_policy' | 'disk_bytes' | 'replicas'
>;

/** Which kinds can use what: an engine has its own command and variables, and no disk. */
const usable: Readonly<
  Record<'command' | 'env' | 'ssh_public_key' | 'disk_bytes' | 'replicas', Kind[]>
> = {
  command: ['instance'],
  env: ['notebook', 'instance'],
  ssh_public_key: ['notebook', 'instance', 'vm'],
  disk_bytes: ['notebook', 'instance', 'vm'],
  replicas: ['endpoint'],
};

export function extrasOf(asked: Launch, catalog: Catalog = builtin_catalog): Extras {
  const { kind, command = [], env = {}, ssh_public_key = null, idle_policy = null } = asked;
  const optional = ['command', 'env', 'ssh_public_key', 'disk_bytes', 'replicas'] as const;
  for (const name of optional) {
    if (asked[name] !== undefined && !usable[name].includes(kind)) {
      throw new EinsoraError('bad_request', { problem: `${name}: ${aKind(kind)} takes none` });
    }
  }
  checkEnv(env);
  if (ssh_public_key !== null) checkKeys(ssh_public_key);
  return {
    image_id: imageOf(kind, asked.image_id, catalog.images),
    ...{ command, env, ssh_public_key, idle_policy },
    disk_bytes: asked.disk_bytes ?? defaultAmounts(kind).disk_bytes,
    replicas: asked.replicas ?? 1,
  };
}

function imageOf(kind: Kind, asked: string | undefined, images: ImageSet): string | null {
  if (asked === undefined) return defaultImage(kind);
  const entry = findImage(asked, images);
  if (entry?.kinds.includes(kind)) return asked;
  if (entry !== null) {
    const kinds = entry.kinds.map((one) => `${one}s`).join(' and ');
    throw new EinsoraError('image_not_for_kind', { image: asked, kind, kinds });
  }
  if (!isImageReference(asked)) throw new EinsoraError('unknown_image', { image: asked });
  if (kind === 'notebook' || kind === 'instance') return asked;
  throw new EinsoraError('image_not_for_kind', {
    ...{ image: asked, kind, kinds: 'notebooks and instances' },
  });
}

function checkEnv(env: Record<string, EnvValue>): void {
  const chars = Object.entries(env).reduce(
    (sum, [name, value]) => sum + name.length + (typeof value === 'string' ? value.length : 0),
    0,
  );
  if (chars > limits.variables_chars) {
    const problem = `env: more than ${limits.variables_chars} characters together`;
    throw new EinsoraError('bad_request', { problem });
  }
}

function checkKeys(text: string): void {
  const keys = parseAuthorizedKeys(text);
  if (typeof keys === 'string') {
    throw new EinsoraError('bad_request', { problem: `ssh_public_key ${keys}` });
  }
}

/** The stored secrets that its variables take. */
export function secretNames(env: Record<string, EnvValue>): string[] {
  const names = Object.values(env).flatMap((value) =>
    typeof value === 'string' ? [] : [value.secret],
  );
  return [...new Set(names)].sort();
}

/** A spec as people see it: of variables the names alone. */
export function shownSpec(spec: WorkloadSpec): ShownSpec {
  const env = Object.fromEntries(
    Object.entries(spec.env).map(([name, value]) => [
      name,
      typeof value === 'string' ? (shown_value as typeof shown_value) : value,
    ]),
  );
  // Field by field: what is not named is not shown, and to copy a rest costs five times as much.
  return {
    kind: spec.kind,
    name: spec.name,
    region: spec.region,
    accelerator: spec.accelerator,
    gpu_class: spec.gpu_class,
    gpu_count: spec.gpu_count,
    gpu_memory_bytes: spec.gpu_memory_bytes,
    gpu_model: spec.gpu_model,
    share_device: spec.share_device,
    cpu_millis: spec.cpu_millis,
    memory_bytes: spec.memory_bytes,
    disk_bytes: spec.disk_bytes,
    model: spec.model,
    model_params: spec.model_params,
    image_id: spec.image_id,
    command: spec.command,
    env,
    ssh_public_key: spec.ssh_public_key,
    idle_policy: spec.idle_policy,
    replicas: spec.replicas,
    machine: spec.machine?.name ?? null,
    fallback: spec.fallback.map(({ step }) => step),
    fallback_after: spec.fallback_after_ms,
    fallback_return: spec.fallback_return,
  };
}

function aKind(kind: Kind): string {
  return /^[aeiou]/.test(kind) ? `an ${kind}` : `a ${kind}`;
}
