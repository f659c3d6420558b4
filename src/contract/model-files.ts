/**
 * Model files on the wire: what a machine keeps, what it is told to fetch, check or remove, and
 * what it says of it.
 */
import { z } from '@hono/zod-openapi';
import { detailsSchema } from './details.ts';
import { limits } from './limits.ts';

/** What the validator said, and when. */
export const modelCheckSchema = z
  .object({
    ok: z.boolean(),
    code: z.string().nullable(),
    /** The rule that was broken. */
    rule: z.string().nullable(),
    message: z.string(),
    at: z.number(),
  })
  .openapi('ModelCheck');
export type ModelCheck = z.infer<typeof modelCheckSchema>;

/** One model as its machine's agent knows it. */
export const observedModelFileSchema = z.object({
  id: z.string().regex(/^[0-9a-f]{26}$/),
  /** For whom it was fetched; null for what comes with Einsora. */
  tenant_id: z.string().max(26).nullable(),
  source: z.string().max(limits.model_chars),
  state: z.enum(['fetching', 'ready', 'failed', 'removed']),
  format: z.string().max(32).nullable(),
  revision: z.string().max(64).nullable(),
  /** Of the file that an engine is given. */
  sha256: z.string().max(64).nullable(),
  bytes: z.number().nullable(),
  done_bytes: z.number().nullable(),
  total_bytes: z.number().nullable(),
  code: z.string().max(64).nullable(),
  details: detailsSchema,
  checked: modelCheckSchema.nullable(),
  /** Number of the last wish that was carried out. */
  done_wish: z.int().min(0),
});
export type ObservedModelFile = z.infer<typeof observedModelFileSchema>;

/** What a machine is to do with a model; it is told until it has said that it did. */
export type DesiredModelFile = {
  id: string;
  tenant_id: string;
  source: string;
  wish: 'fetch' | 'check' | 'remove';
  number: number;
  /** Opens hubs; goes to this machine alone and is never kept there. */
  hub_token: string | null;
};

/** All that a machine keeps, as it reports it. */
export const observedModelsSchema = z.object({
  files: z.array(observedModelFileSchema).max(2000),
  /** What the disk has left where models are kept; null where it cannot be told. */
  free_bytes: z.number().nullable(),
});
export type ObservedModels = z.infer<typeof observedModelsSchema>;

/** For whom a run fetches its model. */
export type ModelAsker = { run: string; tenant_id: string; hub_token: string | null };

export type DesiredModels = { files: DesiredModelFile[]; askers: ModelAsker[] };

const reasonSchema = z.object({
  code: z.string(),
  message: z.string(),
  fix: z.string().nullable(),
});

export const modelFileSchema = z
  .object({
    id: z.string(),
    machine_id: z.string(),
    machine_name: z.string(),
    /** A catalog name, `hf://owner/repo@commit/file`, or an https URL without its query. */
    source: z.string(),
    state: z.enum(['queued', 'fetching', 'ready', 'failed', 'removing']),
    format: z.string().nullable(),
    revision: z.string().nullable(),
    sha256: z.string().nullable(),
    bytes: z.number().nullable(),
    done_bytes: z.number().nullable(),
    total_bytes: z.number().nullable(),
    /** Names of the workloads that run from it. */
    in_use_by: z.array(z.string()),
    reason: reasonSchema.nullable(),
    checked: modelCheckSchema.nullable(),
    created_at: z.number(),
  })
  .openapi('ModelFile');
export type ModelFile = z.infer<typeof modelFileSchema>;

export const modelFilePageSchema = z
  .object({ items: z.array(modelFileSchema), next_cursor: z.string().nullable() })
  .openapi('ModelFilePage');

export const pullSchema = z
  .strictObject({
    model: z
      .string()
      .min(1)
      .max(limits.model_chars)
      .openapi({ description: 'A catalog name, hf://owner/repo, or an https URL.' }),
    machine: z
      .string()
      .max(253)
      .optional()
      .openapi({ description: "A machine's id or name; needed where you own more than one." }),
  })
  .openapi('PullModel');
