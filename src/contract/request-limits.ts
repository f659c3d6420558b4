/**
 * Limits on requests on the wire: of a key, of a user over all keys, of a model over all who ask.
 *
 * Invariants: null limits nothing; in a change, what is left out stays as it is.
 */
import { z } from '@hono/zod-openapi';
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
