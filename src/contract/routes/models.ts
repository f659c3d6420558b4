/**
 * Model files: what the machines keep, pulled before it is needed, checked, removed.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { modelFilePageSchema, modelFileSchema, pullSchema } from '../model-files.ts';
import { body, failures, idempotent, json, may, pageQuery } from '../route-parts.ts';

const member = may('member', 'models');
const viewer = may('viewer', 'models');
const params = z.object({
  model_file: z.string().max(64).openapi({ description: "A model file's id." }),
});

export const modelRoutes = {
  listModelFiles: defineRoute(viewer, {
    method: 'get',
    path: '/v1/model-files',
    request: { query: pageQuery },
    responses: { 200: json('By machine and source', modelFilePageSchema), ...failures },
  }),
  pullModelFile: defineRoute(member, {
    method: 'post',
    path: '/v1/model-files',
    request: { ...body(pullSchema), headers: idempotent },
    responses: { 202: json('The machine is told to fetch it', modelFileSchema), ...failures },
  }),
  showModelFile: defineRoute(viewer, {
    method: 'get',
    path: '/v1/model-files/{model_file}',
    request: { params },
    responses: { 200: json('The model file', modelFileSchema), ...failures },
  }),
  validateModelFile: defineRoute(member, {
    method: 'post',
    path: '/v1/model-files/{model_file}/validate',
    request: { params },
    responses: { 202: json('The machine is told to check it', modelFileSchema), ...failures },
  }),
  removeModelFile: defineRoute(member, {
    method: 'delete',
    path: '/v1/model-files/{model_file}',
    request: { params },
    responses: { 202: json('The machine is told to remove it', modelFileSchema), ...failures },
  }),
} as const;
