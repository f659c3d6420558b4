/**
 * GPUs on the wire, as a machine's agent reports each of them.
 *
 * Invariants: one record for each device, whole GPUs and MIG instances alike, also for one that is
 * lost or hidden by its driver; `usable_by` is empty unless the state is `ok`; a record changes
 * only where something about the device did, so that an unchanged machine writes nothing.
 */
import { z } from '@hono/zod-openapi';

/**
 * degraded: what runs may end, nothing new starts; busy_owner: programs of the machine's owner use
 * it; unknown: it could not be looked at, which is not absence.
 */
export const gpuStates = [
  'ok',
  'degraded',
  'unhealthy',
  'missing',
  'busy_owner',
  'unsupported',
  'needs_reboot',
  'unknown',
] as const;
export type GpuState = (typeof gpuStates)[number];

export const gpuReasonSchema = z.object({
  /** Of the table of reasons. */
  code: z.string().max(64),
  message: z.string().max(1000),
  fix: z.string().max(1000).nullable(),
});

export const gpuSchema = z
  .object({
    /** By the driver's own name (GPU-…, MIG-…); null where no driver ever told it. */
    uuid: z.string().max(96).nullable(),
    /** Address on the PCI bus; null where there is none (inside Windows, on a Jetson). */
    pci: z.string().max(32).nullable(),
    vendor: z.enum(['nvidia', 'amd']),
    model: z.string().max(128),
    /** 0 where it is not known. On unified memory: the share that counts as the GPU's. */
    memory_bytes: z.number().min(0),
    /** Its memory is the machine's own. */
    unified: z.boolean(),
    /** Kept for the display that it drives. */
    reserved_bytes: z.number().min(0),
    state: z.enum(gpuStates),
    reasons: z.array(gpuReasonSchema).max(32),
    /** Drivers that can give it to a workload. */
    usable_by: z.array(z.enum(['docker', 'libvirt'])),
    display_attached: z.boolean(),
    /** Null where it has no MIG. */
    mig_mode: z.enum(['enabled', 'disabled']).nullable(),
    /** Of a MIG instance: the GPU that it is a part of. */
    mig_of: z.string().max(96).nullable(),
    driver_version: z.string().max(64).nullable(),
  })
  .openapi('Gpu');
/** A GPU that a workload has, and which other workloads of its creator have it too. */
export const heldGpuSchema = z.object({ uuid: z.string(), shared_with: z.array(z.string()) });
export type HeldGpu = z.infer<typeof heldGpuSchema>;
export type GpuRecord = z.infer<typeof gpuSchema>;
