/**
 * Regions: where there are machines, and where one of them is.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { body, failures, json, may } from '../route-parts.ts';
import { machineParams } from './machines.ts';

export const region_name = /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/;

const regionSchema = z.object({ region: z.string(), machines: z.number() });
export const regionListSchema = z.object({ items: z.array(regionSchema) }).openapi('RegionList');
export type RegionList = z.infer<typeof regionListSchema>;

export const regionRoutes = {
  listRegions: defineRoute(may('viewer', 'machines'), {
    method: 'get',
    path: '/v1/regions',
    responses: {
      200: json('Regions of the machines that one may know of', regionListSchema),
      ...failures,
    },
  }),
  /** Any machine's; refused while something lives there. */
  setMachineRegion: defineRoute(may('operator', 'machines'), {
    method: 'put',
    path: '/v1/machines/{machine}/region',
    request: {
      ...body(
        z
          .strictObject({
            region: z.string().regex(region_name, 'use lower-case letters, digits and dashes'),
          })
          .openapi('RegionChange'),
      ),
      params: machineParams,
    },
    responses: {
      200: json('Where it is now', z.object({ machine: z.string(), region: z.string() })),
      ...failures,
    },
  }),
} as const;
