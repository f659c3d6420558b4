/**
 * What an entry of the catalog must be, beyond its fields' types, and what an operator's image is
 * filled in with: pure.
 *
 * Invariants: an operator's image runs in a container and nowhere else, since only that brings its
 * programs along; an engine that answers requests is one that Einsora knows how to begin, so an
 * image for endpoints only takes the place of one that comes with it.
 */
import type { ClassEntry } from './catalog.ts';
import {
  builtin_images,
  findImage,
  type ImageEntry,
  type ImageRuntime,
  isImageReference,
  workspace_target,
} from './images.ts';
import type { Kind } from './workload.ts';

const deliveries: Readonly<Record<ClassEntry['accelerator'], readonly ClassEntry['delivery'][]>> = {
  cpu: ['native', 'container', 'passthrough'],
  nvidia: ['container', 'passthrough'],
  apple: ['native', 'passthrough'],
};

/** Why it is no class, for people; null where it is one. */
export function classProblem(entry: ClassEntry): string | null {
  const { accelerator, delivery, gpu_memory_bytes, gpu_model } = entry;
  const able = deliveries[accelerator];
  if (!able.includes(delivery)) {
    return `delivery ${delivery} does not go with ${accelerator}, only ${able.join(' or ')}`;
  }
  const has_device = gpu_memory_bytes > 0 || gpu_model !== null;
  if (has_device && accelerator !== 'nvidia') {
    return `gpu_memory_bytes and gpu_model are for nvidia classes, this one is ${accelerator}`;
  }
  const { regions = null } = entry;
  if (regions !== null && new Set(regions).size !== regions.length) {
    return 'a region is named twice';
  }
  return null;
}

/** What an operator says of a way to run an image. */
export type RuntimeWrite = {
  accelerator: ImageRuntime['accelerator'];
  reference: string;
  command?: readonly string[] | undefined;
  uid?: number | undefined;
  gid?: number | undefined;
};

/** Why it is no image, for people; null where it is one. */
export function imageProblem(
  name: string,
  kinds: readonly Kind[],
  runtimes: readonly RuntimeWrite[],
): string | null {
  if (new Set(kinds).size !== kinds.length) return 'a kind is named twice';
  if (kinds.includes('vm')) return 'virtual machines run no images of containers';
  const builtin = findImage(name, builtin_images);
  if (kinds.includes('endpoint') && !builtin?.kinds.includes('endpoint')) {
    const known = builtin_images.entries.filter((one) => one.kinds.includes('endpoint'));
    const names = known.map((one) => one.name).join(', ');
    return `an image for endpoints only takes the place of one that is known: ${names}`;
  }
  const accelerators = runtimes.map(({ accelerator }) => accelerator);
  if (new Set(accelerators).size !== accelerators.length) return 'an accelerator is named twice';
  if (accelerators.includes('apple')) return "no container reaches a Mac's GPU";
  const wrong = runtimes.find(({ reference }) => !isImageReference(reference));
  return wrong === undefined ? null : `${wrong.reference} is no registry's reference`;
}

/** With everything that an operator leaves to the kind. */
export function imageEntry(
  name: string,
  title: string,
  kinds: readonly Kind[],
  runtimes: readonly RuntimeWrite[],
): ImageEntry {
  const is_engine = kinds.includes('endpoint');
  const engine = findImage(name, builtin_images)?.runtimes.find((one) => one.engine)?.engine;
  const is_site = kinds.includes('notebook');
  const ports = is_engine ? ['api'] : is_site ? ['web'] : [];
  const user = is_engine || is_site ? 1000 : 0;
  const stay = kinds.includes('instance') && !is_site ? ['sleep', 'infinity'] : [];
  return {
    ...{ name, title, kinds },
    runtimes: runtimes.map(({ accelerator, reference, command, uid = user, gid = uid }) => ({
      ...{ accelerator, form: 'container', reference, command: command ?? stay, uid, gid },
      ...{ ports, tcp_ports: {}, workspace: is_engine ? null : workspace_target },
      ...(engine === undefined ? {} : { engine }),
    })),
  };
}
