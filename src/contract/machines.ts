/**
 * Machines and the catalog on the wire.
 */
import { z } from '@hono/zod-openapi';
import { gpuSchema } from './gpus.ts';
import { guardSchema, refusalsSchema } from './guard.ts';
import { machineReclaimSchema } from './reclaim.ts';

const amountsSchema = z.object({
  cpu_millis: z.number(),
  memory_bytes: z.number(),
  disk_bytes: z.number(),
});

export const findingSchema = z
  .object({
    check: z.string(),
    status: z.enum(['ok', 'warning', 'missing']),
    message: z.string(),
    fix: z.string().nullable(),
  })
  .openapi('Finding');

export const driverReportSchema = z.object({
  driver: z.string(),
  ready: z.boolean(),
  why: z.string().nullable(),
  /** The code of why not, from the table of reasons, where it has one. */
  why_code: z.string().nullable().optional(),
  kinds: z.array(z.enum(['vm', 'notebook', 'endpoint', 'instance'])),
  /** Of sim alone: whose row of the trust matrix it would take. It counts in dev mode only. */
  as: z.string().optional(),
  findings: z.array(findingSchema),
});
export type DriverReport = z.infer<typeof driverReportSchema>;

/** What a machine's agent reports of itself. It never says owner, region, sharing or isolation. */
export const inventorySchema = z.object({
  name: z.string().max(253),
  os: z.string().max(64),
  os_version: z.string().max(128),
  arch: z.string().max(32),
  cpu_model: z.string().max(256),
  cpu_count: z.number(),
  memory_bytes: z.number(),
  disk_free_bytes: z.number(),
  offered: amountsSchema,
  accelerators: z.array(z.enum(['cpu', 'nvidia', 'apple'])),
  gpus: z.array(gpuSchema).max(256),
  drivers: z.array(driverReportSchema),
  findings: z.array(findingSchema),
  /** What the machine's own policy file refuses guests; left out where it has none. */
  refuses: refusalsSchema.optional(),
});
export type Inventory = z.infer<typeof inventorySchema>;

export const sharingSchema = z.enum(['private', 'invite-only', 'community']);

const cap = z.int().min(0).max(Number.MAX_SAFE_INTEGER).nullable();
/** A cap of null is none. */
export const capsSchema = z.object({ cpu_millis: cap, memory_bytes: cap, disk_bytes: cap });

export const machineSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    region: z.string(),
    owner: z.string(),
    sharing: sharingSchema,
    /** Slugs of the tenants that are invited; of others' machines null. */
    invited: z.array(z.string()).nullable(),
    /** Of one's own tenant. */
    is_yours: z.boolean(),
    /** Since when nothing new is placed there. */
    drained_at: z.number().nullable(),
    /** What it may offer at most, as its owner said; of others' machines null. */
    caps: capsSchema.nullable(),
    online: z.boolean(),
    last_seen_at: z.number().nullable(),
    offered: amountsSchema,
    held: amountsSchema,
    workloads: z.array(z.string()),
    /** How far it is given back to its owner; left out until its agent said so. */
    guard: guardSchema.optional(),
    /** That its owner takes it back; null where nobody wants that. */
    reclaim: machineReclaimSchema.nullable(),
    /** Of the tenant's own machines: GPUs that somebody has, with its own workloads by name. */
    held_gpus: z
      .array(z.object({ uuid: z.string(), workloads: z.array(z.string()), shared: z.boolean() }))
      .optional(),
    inventory: inventorySchema.nullable(),
  })
  .openapi('Machine');
export type Machine = z.infer<typeof machineSchema>;
export const machineListSchema = z.object({ items: z.array(machineSchema) }).openapi('MachineList');

export const catalogSchema = z
  .object({
    classes: z.array(
      z.object({
        name: z.string(),
        accelerator: z.string(),
        delivery: z.string(),
        cpu_millis: z.number(),
        memory_bytes: z.number(),
        /** Of each GPU, as it is sold; 0 for any, or for none. */
        gpu_memory_bytes: z.number(),
        gpu_model: z.string().nullable(),
        /** Machines that have that, whether free or not. */
        machines: z.array(z.string()),
      }),
    ),
    images: z.array(
      z.object({
        name: z.string(),
        title: z.string(),
        kinds: z.array(z.string()),
        runtimes: z.array(
          z.object({
            accelerator: z.string(),
            form: z.enum(['native', 'container', 'machine']),
            /** What a container engine is asked for; null for the machine's own programs. */
            reference: z.string().nullable(),
          }),
        ),
        /** Machines with a driver that is ready to run it. */
        machines: z.array(z.string()),
      }),
    ),
    models: z.array(
      z.object({
        name: z.string(),
        title: z.string(),
        licence: z.string(),
        format: z.string(),
        parameters: z.string(),
        quantization: z.string(),
        context_length: z.number(),
        file_bytes: z.number(),
        smallest_class: z.string().nullable(),
      }),
    ),
  })
  .openapi('Catalog');
export type Catalog = z.infer<typeof catalogSchema>;
