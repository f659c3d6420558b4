/**
 * The activity log on the wire: its rows, the seals and anchors that prove them, and what one
 * request did.
 */
import { z } from '@hono/zod-openapi';
import { detailsSchema } from './details.ts';
import { gatewayRequestSchema } from './request-usage.ts';
import { eventSchema } from './workloads.ts';

const moment = z.number().openapi({ description: 'Milliseconds since 1970.' });
const erasable = z.string().nullable();

export const activitySchema = z
  .object({
    id: z.string(),
    at: moment,
    user_id: erasable,
    actor: erasable.openapi({ description: '`user:<name>`; null once it was erased.' }),
    via: z.string().openapi({ description: 'token, session, anyone or system.' }),
    proof_id: erasable.openapi({ description: 'The session or token that proved it.' }),
    request_id: z.string(),
    client_request_id: erasable,
    route: z.string(),
    target: z.string().nullable(),
    outcome: z.string().openapi({ description: '`done`, or the code of the refusal.' }),
    details: detailsSchema,
    seq: z.number().nullable().openapi({ description: 'Its number, once it is sealed.' }),
  })
  .openapi('Activity');
export type Activity = z.infer<typeof activitySchema>;

export const activityPageSchema = z.object({
  items: z.array(activitySchema),
  next_cursor: z.string().nullable(),
});

export const sealedRowSchema = z
  .object({
    id: z.string(),
    tenant_id: z.string(),
    seq: z.number(),
    at: moment,
    user_id: erasable,
    actor: erasable,
    via: z.string(),
    proof_id: erasable,
    request_id: z.string(),
    client_request_id: erasable,
    route: z.string(),
    target: z.string().nullable(),
    outcome: z.string(),
    details: z.string().openapi({ description: 'JSON, as it is sealed.' }),
    commitment: z.string(),
    salt: erasable,
  })
  .openapi('SealedActivity');

export const sealSchema = z
  .object({
    tenant_id: z.string(),
    number: z.number(),
    at: moment,
    first_seq: z.number(),
    last_seq: z.number(),
    hash: z.string(),
  })
  .openapi('ActivitySeal');

export const sealPageSchema = z.object({
  tenant_id: z.string(),
  previous_hash: z.string().openapi({ description: 'Of the seal before the first one here.' }),
  items: z.array(z.object({ seal: sealSchema, rows: z.array(sealedRowSchema) })),
  head_seq: z.number().openapi({ description: 'Number of the last numbered row.' }),
  more: z.boolean(),
});
export type SealPage = z.infer<typeof sealPageSchema>;

export const anchorSchema = z
  .object({
    format: z.literal('einsora.activity-anchor/v1'),
    store_uuid: z.string(),
    tenant_id: z.string(),
    at: moment,
    number: z.number(),
    last_seq: z.number(),
    hash: z.string(),
    public_key: z.string(),
    signature: z.string().openapi({ description: 'Ed25519 over the rest in canonical JSON.' }),
  })
  .openapi('ActivityAnchor');

export const anchorPageSchema = z.object({
  public_key: z.string().openapi({ description: 'Ed25519, base64: signs the anchors now.' }),
  items: z.array(anchorSchema),
  next_cursor: z.string().nullable(),
});
export type AnchorPage = z.infer<typeof anchorPageSchema>;

export const erasedSchema = z.object({ rows: z.number() }).openapi('ErasedActivity');

export const requestSchema = z
  .object({
    request_id: z.string(),
    actions: z.array(activitySchema),
    gateway: gatewayRequestSchema.nullable().openapi({ description: 'What a model was asked.' }),
    events: z.array(eventSchema.extend({ workload_id: z.string(), workload_name: z.string() })),
  })
  .openapi('Request');
export type RequestReport = z.infer<typeof requestSchema>;
