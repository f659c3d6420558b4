/**
 * Limits on requests on the wire: of a key, of a user over all keys, of a model over all who ask.
 *
 * Invariants: null limits nothing; in a change, what is left out stays as it is.
 */
import { z } from '@hono/zod-openapi';
import { limitedKinds } from '../core/request-limits.ts';
import { limits } from './limits.ts';

const most = (value: number, description: string) =>
  z.int().min(1).max(value).nullable().openapi({ description });

export const requestLimitsSchema = z
  .strictObject({
    rpm: most(limits.rpm, 'Requests in any minute.'),
    tpm: most(limits.tpm, 'Tokens in any minute, of prompts and answers together.'),
    concurrency: most(limits.concurrency, 'Requests at a time.'),
  })
  .openapi('RequestLimits', { description: 'Null limits nothing.' });
export const requestLimitChangeSchema = requestLimitsSchema.partial().openapi('RequestLimitChange');

/** For how long a key is good from now on. */
export const keyLifeSchema = z.int().min(1000).max(limits.longest_key_life_ms);

export const requestUseSchema = z
  .object({
    requests: z.number().openapi({ description: 'Of the last minute.' }),
    tokens: z.number().openapi({
      description: 'Of the last minute, with what requests that go on have reserved.',
    }),
    concurrency: z.number().openapi({ description: 'Requests that go on now.' }),
  })
  .openapi('RequestUse');
export type RequestUse = z.infer<typeof requestUseSchema>;

export const limitedSchema = z
  .object({
    kind: z.enum(limitedKinds),
    name: z.string().openapi({ description: "A user's or an endpoint's." }),
    limits: requestLimitsSchema,
    use: requestUseSchema,
  })
  .openapi('Limited');
export type LimitedView = z.infer<typeof limitedSchema>;

export const limitedListSchema = z.object({ items: z.array(limitedSchema) }).openapi('LimitedList');
