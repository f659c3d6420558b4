/**
 * Managed inference on the wire: an endpoint that its owner opened to others, and keys by the name
 * of a model (ADR-0058).
 *
 * Invariants: nothing that a guest reads names a machine, a workload's id or a person.
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';
import {
  keyLifeSchema,
  requestLimitChangeSchema,
  requestLimitsSchema,
  requestUseSchema,
} from './request-limits.ts';

const slugs = z.array(z.string().min(1).max(20)).max(50);
const moment = z.number().nullable();

export const endpointSharingChangeSchema = z
  .strictObject({
    invite: slugs.optional().openapi({ description: 'Slugs of tenants that may send prompts.' }),
    uninvite: slugs.optional(),
    community: z.boolean().optional().openapi({
      description: 'Open to every tenant that its machine is shared with, or no more.',
    }),
  })
  .openapi('EndpointSharingChange');

export const endpointSharingSchema = z
  .object({
    /** What guests call it: `<slug>/<name>`. */
    model: z.string(),
    community: z.boolean(),
    invited: z.array(z.string()),
  })
  .openapi('EndpointSharing');
export type EndpointSharing = z.infer<typeof endpointSharingSchema>;

export const openModelListSchema = z
  .object({
    items: z.array(
      z.object({
        model: z.string(),
        /** The name of the tenant whose it is. */
        owner: z.string(),
        created_at: z.number(),
      }),
    ),
  })
  .openapi('OpenModelList');
export type OpenModel = z.infer<typeof openModelListSchema>['items'][number];

export const modelKeyRequestSchema = z
  .strictObject({
    models: z.array(z.string().min(1).max(128)).min(1).max(limits.models_of_key).openapi({
      description: 'Your endpoints by name, or `<tenant>/<name>` of ones open to you.',
    }),
    limits: requestLimitChangeSchema.optional(),
    expires_in_ms: keyLifeSchema.optional(),
  })
  .openapi('ModelKeyRequest');

export const modelKeySchema = z
  .object({
    id: z.string(),
    models: z.array(z.string()),
    limits: requestLimitsSchema,
    use: requestUseSchema,
    last_four: z.string(),
    created_at: z.number(),
    expires_at: moment,
    revoked_at: moment,
    last_used_at: moment.openapi({
      description: 'In the last 14 days; null also for who may not know: of others admins alone.',
    }),
  })
  .openapi('ModelKey');
export type ModelKey = z.infer<typeof modelKeySchema>;
export const newModelKeySchema = modelKeySchema
  .extend({
    key: z.string().openapi({ description: 'Shown this once.' }),
    /** Where an OpenAI client points. */
    base_url: z.string(),
  })
  .openapi('NewModelKey');
export type NewModelKey = z.infer<typeof newModelKeySchema>;
export const modelKeyListSchema = z
  .object({ items: z.array(modelKeySchema) })
  .openapi('ModelKeyList');
