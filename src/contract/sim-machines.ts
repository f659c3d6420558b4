/**
 * The file of made-up machines that `einsora up --dev --sim-machines FILE` reads, so that a whole
 * fleet can be tried on one computer.
 *
 * Invariants: what it names is made up and says so; nothing of it counts outside dev mode.
 */
import { z } from 'zod';

const amount_ms = z.int().min(0).max(86_400_000);

/** What a made-up run goes through; everything left out goes well and fast. */
export const simPlanSchema = z.strictObject({
  start_ms: amount_ms.optional(),
  /** Of the table of reasons. */
  start_error: z.string().max(64).optional(),
  ready_after_ms: amount_ms.nullable().optional(),
  exit: z
    .strictObject({
      after_ms: amount_ms,
      how: z
        .strictObject({
          code: z.int().nullable(),
          signal: z.string().max(16).nullable(),
          out_of_memory: z.boolean(),
        })
        .default({ code: 1, signal: null, out_of_memory: false }),
    })
    .optional(),
  refused_stops: z.int().min(0).max(1000).optional(),
  stop_ms: amount_ms.optional(),
  prints: z.string().max(1000).optional(),
  is_unknown: z.boolean().optional(),
});

const slug = z.string().min(1).max(20);

export const simMachineSchema = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a name of a-z, 0-9 and -'),
  /** The tenant that owns it, by slug; left out: the operator's. One that is not there is made. */
  owner: slug.optional(),
  sharing: z.enum(['private', 'invite-only', 'community']).default('private'),
  /** Tenants that are invited, by slug. */
  guests: z.array(slug).max(100).default([]),
  region: z.string().min(1).max(63).default('local'),
  /** Whose row of the trust matrix it takes; null: that of sim, which is its owner's alone. */
  as: z
    .enum(['linux-native', 'macos-native', 'docker', 'libvirt', 'macos-vz', 'macos-container'])
    .nullable()
    .default(null),
  kinds: z
    .array(z.enum(['vm', 'notebook', 'endpoint', 'instance']))
    .default(['vm', 'notebook', 'endpoint', 'instance']),
  cpus: z.int().min(1).max(1024).default(8),
  memory_gib: z.number().min(1).max(65_536).default(32),
  disk_gib: z.number().min(0).max(1_048_576).default(200),
  gpus: z
    .array(
      z.strictObject({
        model: z.string().min(1).max(128),
        memory_gib: z.number().min(0).max(4096),
        count: z.int().min(1).max(16).default(1),
      }),
    )
    .max(16)
    .default([]),
  /** Left out: the CPU, and NVIDIA where there are GPUs. */
  accelerators: z.array(z.enum(['cpu', 'nvidia', 'apple'])).optional(),
  /** What its first runs go through, one after the other, and then every further one. */
  plans: z.array(simPlanSchema).max(1000).default([]),
  plan: simPlanSchema.default({}),
});
export type SimMachine = z.infer<typeof simMachineSchema>;
/** As it is written: everything but the name may be left out. */
export type SimMachineText = z.input<typeof simMachineSchema>;

export const simMachinesSchema = z
  .strictObject({ machines: z.array(simMachineSchema).min(1).max(1000) })
  .refine(
    ({ machines }) => new Set(machines.map(({ name }) => name)).size === machines.length,
    'two machines have one name',
  );
