/**
 * Machines and the catalog.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { catalogSchema, machineListSchema, machineSchema } from '../machines.ts';
import { failures, json, may } from '../route-parts.ts';

const viewer = may('viewer', 'machines');
const machineParams = z.object({
  machine: z.string().max(253).openapi({ description: "A machine's id or name." }),
});

export const machineRoutes = {
  listMachines: defineRoute(viewer, {
    method: 'get',
    path: '/v1/machines',
    responses: { 200: json('The machines', machineListSchema), ...failures },
  }),
  /** Only of a machine of one's own; answers once it has looked. */
  refreshMachine: defineRoute(may('member', 'machines', { reads: true }), {
    method: 'post',
    path: '/v1/machines/{machine}/refresh',
    request: { params: machineParams },
    responses: { 200: json('The machine, looked at anew', machineSchema), ...failures },
  }),
  showCatalog: defineRoute(viewer, {
    method: 'get',
    path: '/v1/catalog',
    responses: { 200: json('Classes and models', catalogSchema), ...failures },
  }),
} as const;
