/**
 * What the gateway does now, on the wire: by model and by key.
 */
import { z } from '@hono/zod-openapi';

const row = z.object({
  /** Of a model its name; of a key its id. */
  key: z.string(),
  name: z.string(),
  requests_per_s: z.number(),
  /** Of completions whose request has ended. */
  tokens_per_s: z.number(),
  errors_per_s: z.number().openapi({ description: 'Refused or cut.' }),
  at_work: z.number().openapi({ description: 'Requests that an engine works on now.' }),
  waiting: z.number().openapi({ description: 'Requests that wait for their turn now.' }),
  first_token_p50_ms: z.number().nullable(),
  first_token_p95_ms: z.number().nullable(),
});

export const gatewayTopSchema = z
  .object({
    tenant: z.string(),
    at: z.number(),
    window_ms: z.number().openapi({ description: 'Rates and times are of so long up to now.' }),
    models: z.array(row),
    keys: z.array(row),
    journal: z
      .object({
        waiting: z.number().openapi({ description: 'Records that are not stored yet.' }),
        oldest_ms: z.number(),
        lost: z.number().openapi({ description: 'Records that were lost, ever.' }),
        unclean: z.number().openapi({
          description: 'How often the program ended without closing its journal.',
        }),
      })
      .nullable()
      .openapi({ description: 'For operators.' }),
  })
  .openapi('GatewayTop');
export type GatewayTop = z.infer<typeof gatewayTopSchema>;
export type GatewayTopRow = z.infer<typeof row>;
