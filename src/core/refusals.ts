/**
 * What a machine's owner does not let guests do there, by the machine's own policy file (ADR-0061).
 *
 * Invariants: it narrows and never widens: what it does not name is decided elsewhere; it concerns
 * guests alone, never the tenant that owns the machine; agent and placement ask the same function.
 */
import type { Kind } from './workload.ts';

export type Refusals = {
  /** False: no guests at all. */
  guests: boolean;
  /** Null: any. */
  kinds: Kind[] | null;
  /** Slugs of the tenants that may come; null: any. */
  tenants: string[] | null;
  drivers: string[] | null;
  /** Prefixes of images' names. */
  images_allow: string[] | null;
  images_deny: string[];
  max_cpu_millis: number | null;
  max_memory_bytes: number | null;
  max_gpus: number | null;
};

export const refuses_nothing: Refusals = {
  guests: true,
  kinds: null,
  tenants: null,
  drivers: null,
  images_allow: null,
  images_deny: [],
  max_cpu_millis: null,
  max_memory_bytes: null,
  max_gpus: null,
};

/** What a guest asks of the machine. */
export type GuestAsk = {
  kind: Kind;
  image_id: string | null;
  cpu_millis: number;
  memory_bytes: number;
  gpu_count: number;
};

/** The rule of the policy file that it breaks, by its name there; null where it breaks none. */
export function brokenRule(
  refuses: Refusals,
  ask: GuestAsk,
  /** Null where it is not known: then only a rule that names nobody lets it in. */
  tenant: string | null,
  driver: string | null,
): string | null {
  if (!refuses.guests) return 'guests.allow';
  if (refuses.kinds?.includes(ask.kind) === false) return 'guests.kinds';
  if (refuses.tenants !== null && !refuses.tenants.includes(tenant ?? '')) return 'guests.tenants';
  if (driver !== null && refuses.drivers?.includes(driver) === false) return 'guests.drivers';
  const image = ask.image_id ?? '';
  const isOf = (prefix: string) => image.startsWith(prefix);
  // What names no image runs one of the catalog: only a list of what is allowed concerns it.
  if (image !== '' && refuses.images_deny.some(isOf)) return 'guests.images.deny';
  if (image !== '' && refuses.images_allow?.some(isOf) === false) return 'guests.images.allow';
  if (ask.cpu_millis > (refuses.max_cpu_millis ?? Infinity)) return 'guests.max_cpu';
  if (ask.memory_bytes > (refuses.max_memory_bytes ?? Infinity)) return 'guests.max_memory';
  if (ask.gpu_count > (refuses.max_gpus ?? Infinity)) return 'guests.max_gpus';
  return null;
}
