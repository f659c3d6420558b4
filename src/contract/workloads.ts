/**
 * Workloads on the wire: what a launch asks, what a plan answers, how a workload, its timeline, its
 * output and its keys are shown.
 */
import { z } from '@hono/zod-openapi';
import { states } from '../core/states.ts';
import { kinds } from '../core/workload.ts';
import { takenSchema } from './fallback.ts';
import { heldGpuSchema } from './gpus.ts';
import { limits } from './limits.ts';
import { roomOfferSchema } from './make-room.ts';
import { workloadReclaimSchema } from './reclaim.ts';
import { replicaSchema } from './replicas.ts';
import {
  keyLifeSchema,
  requestLimitChangeSchema,
  requestLimitsSchema,
  requestUseSchema,
} from './request-limits.ts';
import { workloadUseSchema } from './stats.ts';
import { launchExtras, shownExtras } from './workload-extras.ts';

const namePattern = /^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$/;

export const launchSchema = z
  .strictObject({
    kind: z.enum(kinds),
    name: z
      .string()
      .max(limits.name_chars)
      .regex(namePattern, 'use lower-case letters, digits, dots and dashes')
      .optional()
      .openapi({ description: 'Chosen from the model or the kind where left out.' }),
    model: z.string().min(1).max(limits.model_chars).optional().openapi({
      description: 'A catalog name, hf://owner/repo, an https or file URL, or a path.',
    }),
    model_params: z
      .strictObject({
        context_length: z.int().min(16).max(1_048_576).optional(),
        parallel: z.int().min(1).max(64).optional(),
      })
      .optional(),
    accelerator: z.enum(['cpu', 'nvidia', 'apple']).optional(),
    gpu_class: z.string().max(64).optional(),
    gpu_count: z.int().min(0).max(16).optional().openapi({
      description: 'Left out: 1 on nvidia, else none.',
    }),
    share_device: z.boolean().optional().openapi({
      description: 'Its one GPU may be shared with other workloads of yours that say so too.',
    }),
    region: z.string().max(63).optional(),
    ...launchExtras,
  })
  .openapi('Launch');
export type Launch = z.infer<typeof launchSchema>;

const reasonSchema = z.object({
  code: z.string(),
  message: z.string(),
  fix: z.string().nullable(),
});
export type ReasonBody = z.infer<typeof reasonSchema>;

const specSchema = z.object({
  kind: z.enum(kinds),
  name: z.string(),
  region: z.string(),
  accelerator: z.string().nullable(),
  gpu_class: z.string().nullable(),
  gpu_count: z.number(),
  /** Of each GPU, at least; 0 for any. */
  gpu_memory_bytes: z.number(),
  gpu_model: z.string().nullable(),
  share_device: z.boolean(),
  cpu_millis: z.number(),
  memory_bytes: z.number(),
  disk_bytes: z.number(),
  model: z.string().nullable(),
  model_params: z.object({
    context_length: z.number().optional(),
    parallel: z.number().optional(),
  }),
  ...shownExtras,
});
export type ShownSpec = z.infer<typeof specSchema>;

const placementSchema = z.object({
  machine_id: z.string(),
  machine_name: z.string(),
  driver: z.string(),
  /** Of a made-up machine in dev mode: whose row of the trust matrix it takes. */
  as: z.string().nullable().optional(),
  isolation: z.enum(['strong', 'weak']),
  /** trusted: its machine is the tenant's own; untrusted: somebody else's. */
  isolation_tier: z.enum(['trusted', 'untrusted']),
  placed_class: z.string(),
  /** UUIDs of the GPUs that it has there. */
  devices: z.array(z.string()).optional(),
});

/** What would be fetched before it can run. */
const downloadSchema = z.object({
  /** The model's pinned name. */
  source: z.string(),
  revision: z.string().nullable(),
  bytes: z.number(),
  file_count: z.number(),
  /** On the disk of the chosen machine, where models are kept; null where it is not known. */
  free_bytes: z.number().nullable(),
  /** The chosen machine has it already. */
  is_here: z.boolean(),
});

export const planSchema = z
  .object({
    asked: specSchema,
    /** Which fields of `asked` came from defaults. */
    defaults: z.array(z.string()),
    chosen: placementSchema.nullable(),
    /** Of its creator's workloads: those with which it would share its GPU. */
    shares_with: z.array(z.string()),
    host_sees: z.string().nullable(),
    /** Why it would wait, where nothing is chosen. */
    reason: reasonSchema.nullable(),
    /** Why a launch would be refused, where it would: over a quota. */
    refused: reasonSchema.nullable(),
    /** Every machine that the tenant may know of: the chosen one, those that would do too, others. */
    candidates: z.array(
      z.object({
        machine_name: z.string(),
        answer: z.enum(['chosen', 'fits', 'no']),
        /** By which it would run; null where none would do. */
        driver: z.string().nullable(),
        isolation: z.enum(['strong', 'weak']).nullable(),
        host_sees: z.string().nullable(),
        reason: reasonSchema.nullable(),
      }),
    ),
    /** The place it would get among what waits, and what is before it. */
    queue: z.object({
      place: z.number(),
      /** Names of the tenant's own, the first few, and how many more of them. */
      own: z.array(z.string()),
      own_more: z.number(),
      others: z.number(),
    }),
    machines_not_chosen: z.array(reasonSchema.extend({ machine_name: z.string() })),
    classes_not_chosen: z.array(z.object({ gpu_class: z.string(), why: z.string() })),
    /** Idle endpoints of the asker that could make room for it. */
    make_room: roomOfferSchema.nullable(),
    /** Where each of its fallbacks would put it now, in their order. */
    fallbacks: z.array(
      z.object({
        step: z.string(),
        chosen: placementSchema.nullable(),
        reason: reasonSchema.nullable(),
      }),
    ),
    download: downloadSchema.nullable(),
  })
  .openapi('Plan');
export type Plan = z.infer<typeof planSchema>;

export const stage_names = [
  'sandbox',
  'engine',
  'environment',
  'image',
  'model',
  'validate',
  'start',
  'load',
  'answer',
  'ready',
] as const;

export const stageSchema = z.object({
  name: z.enum(stage_names),
  state: z.enum(['running', 'done', 'failed']),
  duration_ms: z.number(),
  done_bytes: z.number().nullable(),
  /** Null where nobody knows it. */
  total_bytes: z.number().nullable(),
  note: z.string().nullable(),
});
export type Stage = z.infer<typeof stageSchema>;

export const workloadSchema = z
  .object({
    id: z.string(),
    ...specSchema.shape,
    state: z.enum(states),
    intent: z.enum(['running', 'stopped', 'deleted']),
    park_cause: z.enum(['none', 'user', 'idle', 'preempted', 'trust', 'quota']),
    reason: reasonSchema.nullable(),
    /** Idle endpoints of the asker that could make room for it; null in lists too. */
    make_room: roomOfferSchema.nullable(),
    /** 1 is next; null where it does not wait. */
    queue_place: z.number().nullable(),
    placement: placementSchema.extend({ run_epoch: z.number() }).nullable(),
    /** What it has of its machine's GPUs. */
    gpus: z.array(heldGpuSchema),
    /** What its run stands in for; null where it was placed as asked, or has none. */
    fallback_taken: takenSchema.nullable(),
    host_sees: z.string().nullable(),
    /** Where its disk is: it runs nowhere else. Null for what has none yet, or keeps none. */
    home: z
      .object({
        /** Null where that machine is gone, or not shared with the tenant any more. */
        machine_name: z.string().nullable(),
        region: z.string(),
      })
      .nullable(),
    /** False where the machine has not been heard of lately: `state` is then the last known one. */
    heard_of: z.boolean(),
    last_heard_at: z.number().nullable(),
    stages: z.array(stageSchema),
    /** How many of its replicas answer. */
    replicas_ready: z.number(),
    /** How each stands, of an endpoint that has several; else empty. */
    replica_states: z.array(replicaSchema),
    restarts: z.number(),
    created_at: z.number(),
    created_by: z.string(),
    state_since: z.number(),
    revision: z.number(),
    /** Where an OpenAI client points, for endpoints. */
    url: z.string().nullable(),
    /** That its machine is about to be taken back by its owner; null where it is not. */
    reclaim: workloadReclaimSchema.nullable(),
    /** What its machine's guard does to its run just now; left out where it is left alone. */
    held_back: z.string().optional(),
    /** What its run uses; null where it has none that is ready. */
    use: workloadUseSchema.nullable(),
  })
  .openapi('Workload');
export type Workload = z.infer<typeof workloadSchema>;

export const workloadPageSchema = z
  .object({ items: z.array(workloadSchema), next_cursor: z.string().nullable() })
  .openapi('WorkloadPage');

export const eventSchema = z
  .object({
    number: z.number(),
    at: z.number(),
    kind: z.enum(['state', 'note']),
    from_state: z.enum(states).nullable(),
    to_state: z.enum(states).nullable(),
    code: z.string().nullable(),
    message: z.string(),
    actor: z.string(),
    request_id: z.string().nullable(),
    details: z.record(z.string(), z.unknown()),
  })
  .openapi('Event');
export type WorkloadEvent = z.infer<typeof eventSchema>;

export const eventPageSchema = z
  .object({ items: z.array(eventSchema), next_cursor: z.string().nullable() })
  .openapi('EventPage');

export const logChunkSchema = z
  .object({
    text: z.string(),
    next_offset: z.number(),
    /** The run has ended and this was the rest. */
    end: z.boolean(),
    run_epoch: z.number(),
  })
  .openapi('LogChunk');

export const keyRequestSchema = z
  .strictObject({
    limits: requestLimitChangeSchema.optional(),
    expires_in_ms: keyLifeSchema.optional(),
  })
  .openapi('KeyRequest');

export const keySchema = z
  .object({
    id: z.string(),
    workload_id: z.string(),
    limits: requestLimitsSchema,
    use: requestUseSchema,
    last_four: z.string(),
    created_at: z.number(),
    expires_at: z.number().nullable(),
    revoked_at: z.number().nullable(),
  })
  .openapi('EndpointKey');
export type EndpointKey = z.infer<typeof keySchema>;

export const newKeySchema = keySchema
  .extend({ key: z.string().openapi({ description: 'Shown this once.' }) })
  .openapi('NewEndpointKey');
export const keyListSchema = z.object({ items: z.array(keySchema) }).openapi('EndpointKeyList');
