/**
 * The catalog as data: everybody reads it, operators add to it, replace in it and retire of it.
 */
import { z } from '@hono/zod-openapi';
import { defineRoute } from '../auth.ts';
import {
  classListSchema,
  classSchema,
  classWriteSchema,
  imageListSchema,
  imageSchema,
  imageWriteSchema,
} from '../catalog-entries.ts';
import { body, failures, json, may } from '../route-parts.ts';

const viewer = may('viewer', 'machines');
const operator = may('operator', 'machines');
const classParams = z.object({
  gpu_class: z.string().max(64).openapi({ description: 'Name of a class.' }),
});
const imageParams = z.object({
  image: z.string().max(64).openapi({ description: 'Name of an image of the catalog.' }),
});
const oneClass = { 200: json('The class', classSchema), ...failures };
const oneImage = { 200: json('The image', imageSchema), ...failures };

export const catalogRoutes = {
  listClasses: defineRoute(viewer, {
    method: 'get',
    path: '/v1/classes',
    responses: { 200: json('All classes, retired ones too', classListSchema), ...failures },
  }),
  showClass: defineRoute(viewer, {
    method: 'get',
    path: '/v1/classes/{gpu_class}',
    request: { params: classParams },
    responses: oneClass,
  }),
  setClass: defineRoute(operator, {
    method: 'put',
    path: '/v1/classes/{gpu_class}',
    request: { ...body(classWriteSchema), params: classParams },
    responses: oneClass,
  }),
  /** Retires it where it comes with Einsora. Refused while something waits for it. */
  removeClass: defineRoute(operator, {
    method: 'delete',
    path: '/v1/classes/{gpu_class}',
    request: { params: classParams },
    responses: oneClass,
  }),
  /** As it comes with Einsora. */
  resetClass: defineRoute(operator, {
    method: 'post',
    path: '/v1/classes/{gpu_class}/reset',
    request: { params: classParams },
    responses: oneClass,
  }),
  listImages: defineRoute(viewer, {
    method: 'get',
    path: '/v1/catalog-images',
    responses: { 200: json('All images, retired ones too', imageListSchema), ...failures },
  }),
  showImage: defineRoute(viewer, {
    method: 'get',
    path: '/v1/catalog-images/{image}',
    request: { params: imageParams },
    responses: oneImage,
  }),
  setImage: defineRoute(operator, {
    method: 'put',
    path: '/v1/catalog-images/{image}',
    request: { ...body(imageWriteSchema), params: imageParams },
    responses: oneImage,
  }),
  removeImage: defineRoute(operator, {
    method: 'delete',
    path: '/v1/catalog-images/{image}',
    request: { params: imageParams },
    responses: oneImage,
  }),
  resetImage: defineRoute(operator, {
    method: 'post',
    path: '/v1/catalog-images/{image}/reset',
    request: { params: imageParams },
    responses: oneImage,
  }),
} as const;
