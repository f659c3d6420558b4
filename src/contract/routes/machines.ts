/**
 * Machines and the catalog.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import {
  drainSchema,
  fenceSchema,
  machineCapsSchema,
  machineChangedSchema,
  machineGiftSchema,
  machineNameSchema,
  sharingChangeSchema,
} from '../machine-changes.ts';
import { catalogSchema, machineListSchema, machineSchema } from '../machines.ts';
import { body, failures, json, may } from '../route-parts.ts';

const viewer = may('viewer', 'machines');
const admin = may('tenant-admin', 'machines');
export const machineParams = z.object({
  machine: z.string().max(253).openapi({ description: "A machine's id or name." }),
});

const changed = {
  200: json('The machine, and what that stopped', machineChangedSchema),
  ...failures,
};

/** Of machines of one's own tenant; an operator may take back what others share. */
const machineChangeRoutes = {
  shareMachine: defineRoute(admin, {
    method: 'put',
    path: '/v1/machines/{machine}/sharing',
    request: { ...body(sharingChangeSchema), params: machineParams },
    responses: changed,
  }),
  giveMachine: defineRoute(admin, {
    method: 'post',
    path: '/v1/machines/{machine}/give',
    request: { ...body(machineGiftSchema), params: machineParams },
    responses: changed,
  }),
  drainMachine: defineRoute(admin, {
    method: 'post',
    path: '/v1/machines/{machine}/drain',
    request: { ...body(drainSchema), params: machineParams },
    responses: changed,
  }),
  undrainMachine: defineRoute(admin, {
    method: 'post',
    path: '/v1/machines/{machine}/undrain',
    request: { params: machineParams },
    responses: changed,
  }),
  renameMachine: defineRoute(admin, {
    method: 'put',
    path: '/v1/machines/{machine}/name',
    request: { ...body(machineNameSchema), params: machineParams },
    responses: changed,
  }),
  limitMachine: defineRoute(admin, {
    method: 'put',
    path: '/v1/machines/{machine}/limits',
    request: { ...body(machineCapsSchema), params: machineParams },
    responses: changed,
  }),
  /** A person's word that it is powered off; refused while it is heard of. */
  fenceMachine: defineRoute(admin, {
    method: 'post',
    path: '/v1/machines/{machine}/fence',
    request: { ...body(fenceSchema), params: machineParams },
    responses: changed,
  }),
  removeMachine: defineRoute(admin, {
    method: 'delete',
    path: '/v1/machines/{machine}',
    request: {
      params: machineParams,
      query: z.object({ forget_homes: z.enum(['true', 'false']).optional() }),
    },
    responses: changed,
  }),
} as const;

export const machineRoutes = {
  ...machineChangeRoutes,
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
