/**
 * Taking a machine back, and letting it go: its owner's people alone, others find no such machine.
 */
import { defineRoute } from '../auth.ts';
import { machineSchema } from '../machines.ts';
import { reclaimRequestSchema } from '../reclaim.ts';
import { body, failures, json, may } from '../route-parts.ts';
import { machineParams } from './machines.ts';

const member = may('member', 'machines');

export const reclaimRoutes = {
  reclaimMachine: defineRoute(member, {
    method: 'post',
    path: '/v1/machines/{machine}/reclaim',
    request: { params: machineParams, ...body(reclaimRequestSchema) },
    responses: { 200: json('The machine, as it is taken back', machineSchema), ...failures },
  }),
  releaseMachine: defineRoute(member, {
    method: 'post',
    path: '/v1/machines/{machine}/release',
    request: { params: machineParams },
    responses: { 200: json('The machine, let go', machineSchema), ...failures },
  }),
} as const;
