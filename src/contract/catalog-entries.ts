/**
 * Entries of the catalog on the wire: what comes with Einsora and what an operator made of it.
 *
 * Invariants: what is written is complete in itself, so that an entry means the same wherever it is
 * copied to; unknown fields are refused.
 */
import { z } from '@hono/zod-openapi';
import { kinds } from '../core/workload.ts';
import { limits } from './limits.ts';

const name = z.string().max(limits.name_chars);
const accelerator = z.enum(['cpu', 'nvidia', 'apple']);
const most_bytes = 2 ** 50;

export const entry_name = /^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$/;

export const originSchema = z.enum(['built-in', 'changed', 'added', 'retired']).openapi({
  description:
    'As it comes with Einsora; replaced by an operator; added by one; or not to be asked for.',
});

export const classWriteSchema = z
  .strictObject({
    accelerator,
    delivery: z.enum(['native', 'container', 'passthrough']),
    cpu_millis: z.int().min(100).max(1_024_000),
    memory_bytes: z
      .int()
      .min(2 ** 24)
      .max(most_bytes),
    gpu_memory_bytes: z.int().min(0).max(most_bytes).optional().openapi({
      description: 'Of each GPU at least; 0 for any size.',
    }),
    gpu_model: z.string().min(1).max(64).nullable().optional(),
    weight: z.number().positive().max(1_000_000).openapi({
      description: 'What a second of it weighs in fair share.',
    }),
    regions: z.array(name.min(1)).min(1).max(100).nullable().optional().openapi({
      description: 'Where it may be asked for; null for everywhere.',
    }),
  })
  .openapi('ClassWrite');
export type ClassWrite = z.infer<typeof classWriteSchema>;

const changeFields = {
  name,
  origin: originSchema,
  changed_at: z.number().nullable(),
  /** Null for who is no operator. */
  changed_by: z.string().nullable(),
};

export const classSchema = z
  .object({
    ...changeFields,
    accelerator,
    delivery: z.enum(['native', 'container', 'passthrough']),
    cpu_millis: z.number(),
    memory_bytes: z.number(),
    gpu_memory_bytes: z.number(),
    gpu_model: z.string().nullable(),
    weight: z.number(),
    regions: z.array(z.string()).nullable(),
  })
  .openapi('GpuClass');
export type GpuClass = z.infer<typeof classSchema>;
export const classListSchema = z.object({ items: z.array(classSchema) }).openapi('GpuClassList');

const id = z.int().min(0).max(65_534);

export const imageWriteSchema = z
  .strictObject({
    title: z.string().min(1).max(200),
    kinds: z.array(z.enum(kinds)).min(1).max(4),
    /** One for each kind of accelerator, best first. */
    runtimes: z
      .array(
        z.strictObject({
          accelerator,
          reference: z.string().min(1).max(255).openapi({
            description: 'What a container engine is asked for.',
          }),
          command: z.array(z.string().max(limits.command_word_chars)).max(100).optional(),
          uid: id.optional(),
          gid: id.optional(),
        }),
      )
      .min(1)
      .max(3),
  })
  .openapi('ImageWrite');
export type ImageWrite = z.infer<typeof imageWriteSchema>;

export const imageSchema = z
  .object({
    ...changeFields,
    title: z.string(),
    kinds: z.array(z.enum(kinds)),
    runtimes: z.array(
      z.object({
        accelerator,
        form: z.enum(['native', 'container', 'machine']),
        /** Null for the machine's own programs. */
        reference: z.string().nullable(),
        command: z.array(z.string()),
        uid: z.number(),
        gid: z.number(),
      }),
    ),
  })
  .openapi('CatalogImage');
export type CatalogImage = z.infer<typeof imageSchema>;
export const imageListSchema = z
  .object({ items: z.array(imageSchema) })
  .openapi('CatalogImageList');
