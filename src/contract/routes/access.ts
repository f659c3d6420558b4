/**
 * The sites of workloads.
 */
import { accessLinkSchema } from '../access.ts';
import { defineRoute } from '../auth.ts';
import { failures, json, may, workloadParams } from '../route-parts.ts';

export const accessRoutes = {
  openSite: defineRoute(may('member', 'workloads'), {
    method: 'post',
    path: '/v1/workloads/{workload}/access',
    request: { params: workloadParams },
    responses: { 201: json('A link that opens its web page once', accessLinkSchema), ...failures },
  }),
} as const;
