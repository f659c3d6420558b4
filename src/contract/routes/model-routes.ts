/**
 * Where the names of models lead.
 */
import { defineRoute } from '../auth.ts';
import { modelRoutePageSchema } from '../model-routes.ts';
import { failures, json, may, pageQuery } from '../route-parts.ts';

export const modelRouteRoutes = {
  listModelRoutes: defineRoute(may('viewer', 'workloads'), {
    method: 'get',
    path: '/v1/routes',
    request: { query: pageQuery },
    responses: {
      200: json("The tenant's models by name, and who answers for each", modelRoutePageSchema),
      ...failures,
    },
  }),
} as const;
