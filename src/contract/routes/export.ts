/**
 * The export of a workload.
 */
import { defineRoute } from '../auth.ts';
import { workloadExportSchema } from '../export.ts';
import { failures, json, may, workloadParams } from '../route-parts.ts';

export const exportRoutes = {
  exportWorkload: defineRoute(may('viewer', 'workloads'), {
    method: 'get',
    path: '/v1/workloads/{workload}/export',
    request: { params: workloadParams },
    responses: {
      200: json('Everything recorded about it, without secrets', workloadExportSchema),
      ...failures,
    },
  }),
} as const;
