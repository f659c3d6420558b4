/**
 * What a launch may say beside its size: image, command, variables, key, idle policy; as it is
 * asked, and as it is shown.
 *
 * Invariants: what is shown of variables is their names, and of secrets which one they take: a
 * value that came in never comes out.
 */
import { z } from '@hono/zod-openapi';
import { fallbackExtras, shownFallback } from './fallback.ts';
import { limits } from './limits.ts';
import { replicaCount } from './replicas.ts';
import { secretNameSchema } from './secrets.ts';

const variableName = z
  .string()
  .max(limits.variable_name_chars)
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'letters, digits and underscores');

/** Null: never. */
export const idlePolicySchema = z
  .strictObject({ after_ms: z.int().min(limits.least_idle_ms).max(limits.longest_idle_ms) })
  .nullable();

export const launchExtras = {
  ...fallbackExtras,
  image_id: z.string().min(1).max(255).optional().openapi({
    description: 'Of the catalog, or for notebooks and instances a reference of a registry.',
  }),
  command: z
    .array(z.string().max(limits.command_word_chars))
    .min(1)
    .max(limits.command_words)
    .optional()
    .openapi({ description: 'The program of an instance; else what its image begins with.' }),
  env: z
    .record(
      variableName,
      z.union([
        z.string().max(limits.variable_chars),
        z.strictObject({ secret: secretNameSchema }),
      ]),
    )
    .refine((env) => Object.keys(env).length <= limits.variables, 'too many variables')
    .optional()
    .openapi({ description: 'Variables: a value, or `{"secret": "name"}` for a stored secret.' }),
  ssh_public_key: z.string().min(1).max(limits.ssh_keys_chars).optional().openapi({
    description: 'Public keys in the form of OpenSSH, one a line.',
  }),
  idle_policy: idlePolicySchema
    .optional()
    .openapi({ description: 'Stop it when nothing happened in it for so long; null: never.' }),
  replicas: replicaCount.optional().openapi({
    description: 'Of an endpoint: how many runs of it are to answer at once.',
  }),
  cpu_millis: z.int().min(1).max(1_000_000).optional(),
  memory_bytes: z
    .int()
    .min(1)
    .max(2 ** 50)
    .optional()
    .openapi({
      description: 'With `cpu_millis`: the smallest class that has both is taken.',
    }),
  disk_bytes: z
    .int()
    .min(0)
    .max(2 ** 50)
    .optional(),
};

/** Stands where a value is that nobody is shown. */
export const shown_value = 'REDACTED';

export const shownExtras = {
  ...shownFallback,
  image_id: z.string().nullable(),
  command: z.array(z.string()),
  env: z.record(z.string(), z.union([z.literal(shown_value), z.object({ secret: z.string() })])),
  ssh_public_key: z.string().nullable(),
  idle_policy: z.object({ after_ms: z.number() }).nullable(),
  replicas: z.number(),
};
