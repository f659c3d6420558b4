/**
 * Files of a running workload.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import { fileFactsSchema, filePageSchema, modeSchema, pathSchema } from '../files.ts';
import { failures, json, may, nothing, workloadParams } from '../route-parts.ts';

const member = may('member', 'workloads');
const params = workloadParams;
const base = '/v1/workloads/{workload}/files' as const;
const bytes = { 'application/octet-stream': { schema: z.string() } };

export const fileRoutes = {
  readFile: defineRoute(member, {
    method: 'get',
    path: base,
    request: {
      params,
      query: z.object({ path: pathSchema }),
      headers: z.object({
        range: z
          .string()
          .max(100)
          .optional()
          .openapi({ description: 'Only `bytes=N-`: all from a byte on.' }),
      }),
    },
    responses: {
      200: { description: 'The content', content: bytes },
      206: { description: 'The content from a byte on', content: bytes },
      ...failures,
    },
  }),
  writeFile: defineRoute(member, {
    method: 'put',
    path: base,
    request: { params, query: z.object({ path: pathSchema, mode: modeSchema }) },
    responses: { 204: nothing, ...failures },
  }),
  removeFile: defineRoute(member, {
    method: 'delete',
    path: base,
    request: { params, query: z.object({ path: pathSchema }) },
    responses: { 204: nothing, ...failures },
  }),
  showFile: defineRoute(member, {
    method: 'get',
    path: `${base}/facts`,
    request: { params, query: z.object({ path: pathSchema }) },
    responses: {
      200: json('What it is; of a link, what it leads to', fileFactsSchema),
      ...failures,
    },
  }),
  listFiles: defineRoute(member, {
    method: 'get',
    path: `${base}/entries`,
    request: {
      params,
      query: z.object({ path: pathSchema, cursor: z.string().max(300).optional() }),
    },
    responses: { 200: json('What a folder holds, by name', filePageSchema), ...failures },
  }),
  makeFolder: defineRoute(member, {
    method: 'post',
    path: `${base}/folders`,
    request: { params, query: z.object({ path: pathSchema }) },
    responses: { 204: nothing, ...failures },
  }),
} as const;

const upload_path = /^\/v1\/workloads\/[^/]+\/files$/;

/** Is this a request whose body is the content of a file, of any size? */
export function isUpload(method: string | undefined, path: string): boolean {
  return method === 'PUT' && upload_path.test(path);
}
