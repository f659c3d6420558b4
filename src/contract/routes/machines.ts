/**
 * Machines and the catalog.
 */
import { defineRoute } from '../auth.ts';
import { catalogSchema, machineListSchema } from '../machines.ts';
import { failures, json, may } from '../route-parts.ts';

const viewer = may('viewer', 'machines');

export const machineRoutes = {
  listMachines: defineRoute(viewer, {
    method: 'get',
    path: '/v1/machines',
    responses: { 200: json('The machines', machineListSchema), ...failures },
  }),
  showCatalog: defineRoute(viewer, {
    method: 'get',
    path: '/v1/catalog',
    responses: { 200: json('Classes and models', catalogSchema), ...failures },
  }),
} as const;
