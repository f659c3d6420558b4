/**
 * Scaling an endpoint.
 */
import { defineRoute } from '../auth.ts';
import { scaleSchema } from '../replicas.ts';
import { body, failures, idempotent, json, may, workloadParams } from '../route-parts.ts';
import { workloadSchema } from '../workloads.ts';

export const replicaRoutes = {
  scaleEndpoint: defineRoute(may('member', 'workloads'), {
    method: 'post',
    path: '/v1/workloads/{workload}/scale',
    request: { params: workloadParams, ...body(scaleSchema), headers: idempotent },
    responses: { 202: json('Accepted', workloadSchema), ...failures },
  }),
} as const;
