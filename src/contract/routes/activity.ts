/**
 * The activity log: read, proved, erased; and what one request did.
 */
import { z } from '@hono/zod-openapi';
import {
  activityPageSchema,
  anchorPageSchema,
  erasedSchema,
  requestSchema,
  sealPageSchema,
} from '../activity.ts';
import { defineRoute } from '../auth.ts';
import { limits } from '../limits.ts';
import { failures, json, may, pageQuery } from '../route-parts.ts';

const admin = may('tenant-admin', 'activity');
const moment = z.coerce.number().int().min(0).optional();
const name = z.string().max(64).optional();
const tenant = name.openapi({ description: "A tenant's id or slug, for operators." });

export const activityRoutes = {
  listActivity: defineRoute(admin, {
    method: 'get',
    path: '/v1/activity',
    request: {
      query: pageQuery.extend({
        tenant,
        user: name.openapi({ description: "A user's id or name." }),
        route: name,
        target: z.string().max(200).optional(),
        since: moment,
        until: moment,
      }),
    },
    responses: {
      200: json('Newest first; a page may be empty and not the last', activityPageSchema),
      ...failures,
    },
  }),
  listSeals: defineRoute(admin, {
    method: 'get',
    path: '/v1/activity/seals',
    request: {
      query: z.object({
        tenant,
        after: z.coerce.number().int().min(0).optional().openapi({
          description: 'Number of a seal: those after it.',
        }),
        since: moment.openapi({ description: 'In place of `after`: those sealed from then on.' }),
        limit: z.coerce.number().int().min(1).max(limits.seals_per_page).optional(),
      }),
    },
    responses: { 200: json('Seals with their rows, oldest first', sealPageSchema), ...failures },
  }),
  listAnchors: defineRoute(admin, {
    method: 'get',
    path: '/v1/activity/anchors',
    request: { query: pageQuery.pick({ cursor: true }).extend({ tenant }) },
    responses: {
      200: json('Oldest first; a page may be empty and not the last', anchorPageSchema),
      ...failures,
    },
  }),
  eraseActivity: defineRoute(may('operator', 'activity'), {
    method: 'delete',
    path: '/v1/activity/users/{user}',
    request: {
      params: z.object({ user: z.string().max(64).openapi({ description: "A user's id." }) }),
      query: z.object({ tenant }),
    },
    responses: {
      200: json('Who they were is gone from the log; the log still proves itself', erasedSchema),
      ...failures,
    },
  }),
  showRequest: defineRoute(may('viewer', 'activity'), {
    method: 'get',
    path: '/v1/requests/{request}',
    request: { params: z.object({ request: z.string().max(64) }) },
    responses: { 200: json('What the request did', requestSchema), ...failures },
  }),
} as const;
