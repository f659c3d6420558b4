/**
 * What workloads use: now, and over the last days.
 */
import { z } from '@hono/zod-openapi';
import { idlePolicySchema } from './workload-extras.ts';

/** Null where it could not be measured, which is not zero. */
const figure = z.number().nullable();

const figures = {
  /** CPU in thousandths of a core. */
  cpu_millis: figure,
  memory_bytes: figure,
  disk_bytes: figure,
  /** Of its busiest GPU. */
  gpu_percent: figure,
  gpu_memory_bytes: figure,
};

export const workloadUseSchema = z.object({
  ...figures,
  /** When it was measured; null, like all figures, where nobody has lately. */
  at: figure,
  /** When it was last used; null where nothing is known of it. */
  used_at: figure,
  /** Until it is stopped, if nobody uses it; null where it is not to be or does not run. */
  idle_left_ms: figure,
  /**
   * What was seen of use at the last look: request, cpu, gpu, kernels, start, or unmeasured where
   * it cannot be told here and so counts as use; null where it was quiet.
   */
  busy_with: z.enum(['start', 'cpu', 'gpu', 'kernels', 'request', 'unmeasured']).nullable(),
});
export type WorkloadUse = z.infer<typeof workloadUseSchema>;

export const stats_ranges = ['1h', '6h', '24h', '7d', '14d'] as const;
export type StatsRange = (typeof stats_ranges)[number];

export const statsSchema = z
  .object({
    workload_id: z.string(),
    range: z.enum(stats_ranges),
    /** Between two points, where none is missing. */
    step_ms: z.number(),
    cpu_cap_millis: z.number(),
    memory_cap_bytes: z.number(),
    /** Oldest first. With 5 minutes for a step, means over them, and the most CPU and memory. */
    points: z.array(
      z.object({
        at: z.number(),
        run_epoch: z.number(),
        ...figures,
        cpu_most_millis: figure,
        memory_most_bytes: figure,
      }),
    ),
  })
  .openapi('WorkloadStats');
export type WorkloadStats = z.infer<typeof statsSchema>;

export const idleRequestSchema = z
  .strictObject({ idle_policy: idlePolicySchema })
  .openapi('IdleRequest');
