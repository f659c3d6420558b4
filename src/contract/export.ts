/**
 * The export of a workload on the wire: `einsora.workload-export/v1`.
 *
 * Invariants: sections hold the store's rows by their column names; their columns may become more,
 * never fewer, within v1.
 */
import { z } from '@hono/zod-openapi';

const rows = z.array(z.record(z.string(), z.unknown()));

export const workloadExportSchema = z
  .object({
    format: z.literal('einsora.workload-export/v1'),
    workload: z.record(z.string(), z.unknown()),
    events: rows,
    runs: rows,
    holds: rows,
    ledger: rows,
    keys: rows,
    samples: rows,
    use: rows,
    requests: rows.openapi({ description: 'Sums by day, key and outcome; nothing of prompts.' }),
    activity: rows,
    usage: z.object({
      metered_ms: z.number(),
      held_ms: z.number(),
      open: z.number().openapi({ description: 'Intervals that have not ended.' }),
    }),
    left_out: z.record(z.string(), z.number()).openapi({
      description: 'How many of the last rows of a section are missing, where it was too large.',
    }),
    redactions: z.array(
      z.object({
        pointer: z.string().openapi({ description: 'JSON pointer into this document.' }),
        rule: z.string(),
      }),
    ),
  })
  .openapi('WorkloadExport');
export type WorkloadExport = z.infer<typeof workloadExportSchema>;
