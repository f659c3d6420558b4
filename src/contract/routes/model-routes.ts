/**
 * Where the names of models lead, and further names.
 */
import { defineRoute } from '../auth.ts';
import { aliasChangeSchema, aliasesSchema, modelRoutePageSchema } from '../model-routes.ts';
import { body, failures, json, may, pageQuery, workloadParams } from '../route-parts.ts';

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
  changeAliases: defineRoute(may('member', 'workloads'), {
    method: 'put',
    path: '/v1/workloads/{workload}/aliases',
    request: { ...body(aliasChangeSchema), params: workloadParams },
    responses: { 200: json('Its further names now', aliasesSchema), ...failures },
  }),
} as const;
