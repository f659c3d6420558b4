/**
 * Quotas on the wire: how much a tenant, or a user of it, may claim at once.
 *
 * Invariants: a limit of null limits nothing; in a change, what is left out stays as it is.
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';

const limit = z.int().min(0).nullable();
const amount = z.number();

export const quotaLimitsSchema = z
  .strictObject({
    workloads: limit,
    gpus: limit,
    cpu_millis: limit,
    memory_bytes: limit,
    disk_bytes: limit,
  })
  .openapi('QuotaLimits', { description: 'Null limits nothing.' });

const scope = {
  user: z.string().max(limits.name_chars).nullable().openapi({
    description: 'Whose claims are counted; null for those of the whole tenant.',
  }),
  gpu_class: z.string().max(64).nullable().openapi({
    description: 'Of which class; null for all of them together.',
  }),
};

export const quotaChangeSchema = z
  .strictObject({
    user: scope.user.optional(),
    gpu_class: scope.gpu_class.optional(),
    limits: quotaLimitsSchema.partial(),
  })
  .openapi('QuotaChange');
export type QuotaChange = z.infer<typeof quotaChangeSchema>;

export const quotaSchema = z
  .object({
    ...scope,
    limits: quotaLimitsSchema,
    used: z.object({
      workloads: amount,
      gpus: amount,
      cpu_millis: amount,
      memory_bytes: amount,
      disk_bytes: amount,
    }),
  })
  .openapi('Quota');
export type Quota = z.infer<typeof quotaSchema>;

export const quotaListSchema = z
  .object({ tenant: z.string(), items: z.array(quotaSchema) })
  .openapi('QuotaList');
export type QuotaList = z.infer<typeof quotaListSchema>;
