/**
 * Secrets as the API speaks of them: names and times. A value goes in and never comes out.
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';

export const secretNameSchema = z
  .string()
  .max(limits.name_chars)
  .regex(/^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/, 'lower-case letters, digits and dashes')
  .openapi({ description: 'Its name, such as `hf-token`.' });

export const secretValueSchema = z
  .strictObject({
    value: z
      .string()
      .min(1)
      .max(limits.secret_value_chars)
      .openapi({ writeOnly: true, description: 'Sealed at once; nobody can read it back.' }),
  })
  .openapi('SecretValue');

export const secretSchema = z
  .object({
    name: z.string(),
    created_at: z.number(),
    updated_at: z.number(),
  })
  .openapi('Secret');

export const secretListSchema = z.object({
  items: z.array(secretSchema.extend({ updated_by: z.string() })),
});

export type SecretEntry = z.infer<typeof secretListSchema>['items'][number];
