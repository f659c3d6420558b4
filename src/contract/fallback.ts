/**
 * Fallbacks on the wire: what a launch may say of them, how they are shown, and how it is shown
 * that one was taken.
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';

export const fallbackSteps = z
  .array(
    z
      .string()
      .min(1)
      .max(limits.model_chars + 16),
  )
  .max(limits.fallback_steps)
  .openapi({
    description:
      'What may stand in for what is asked, in this order: `class:NAME`, `cpu`, `machine:NAME`, `replica`, `model:NAME`, `region:NAME`.',
  });
export const fallbackAfter = z.int().min(0).max(limits.longest_fallback_wait_ms).openapi({
  description: 'Milliseconds of waiting before a fallback is tried; ten minutes where left out.',
});
export const fallbackReturn = z.boolean().openapi({
  description: 'Endpoints: go back to what was asked once there is room for it.',
});

export const fallbackExtras = {
  machine: z
    .string()
    .min(1)
    .max(255)
    .optional()
    .openapi({ description: 'The only machine that it may run on: name or id.' }),
  fallback: fallbackSteps.optional(),
  fallback_after: fallbackAfter.optional(),
  fallback_return: fallbackReturn.optional(),
};

export const shownFallback = {
  machine: z.string().nullable(),
  fallback: z.array(z.string()),
  /** Milliseconds; 0 where it has none. */
  fallback_after: z.number(),
  fallback_return: z.boolean(),
};

/** Of the current run, where it stands in for what was asked. */
export const takenSchema = z.object({
  /** Which of the list it was, from 1. */
  step: z.number(),
  of: z.number(),
  to: z.string(),
  asked: z.string(),
  placed: z.string(),
  waited_ms: z.number(),
  /** What it runs with, where that is another thing than was asked. */
  accelerator: z.string().nullable(),
  gpu_count: z.number(),
  cpu_millis: z.number(),
  memory_bytes: z.number(),
  model: z.string().nullable(),
});
export type Taken = z.infer<typeof takenSchema>;

export const fallbackRequestSchema = z
  .strictObject({
    fallback: fallbackSteps,
    fallback_after: fallbackAfter.optional(),
    fallback_return: fallbackReturn.optional(),
  })
  .openapi('FallbackRequest');
