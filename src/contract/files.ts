/**
 * Files of a run on the wire. Their content travels as it is, not as JSON.
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';

export const fileFactsSchema = z
  .object({
    name: z.string(),
    kind: z.enum(['file', 'folder', 'link', 'other']),
    size: z.number(),
    /** Permission bits. */
    mode: z.number(),
    modified_at: z.number(),
  })
  .openapi('FileFacts');

export const filePageSchema = z
  .object({ items: z.array(fileFactsSchema), next_cursor: z.string().nullable() })
  .openapi('FilePage');

export const pathSchema = z
  .string()
  .max(limits.file_path_chars)
  .regex(/^\//, 'give an absolute path')
  .openapi({ description: 'An absolute path in the run.' });

/** As people write it: three octal digits, perhaps after a 0. */
export const modeSchema = z
  .string()
  .regex(/^0?[0-7]{3}$/)
  .optional()
  .openapi({ description: 'Permission bits in octal digits; 644 where left out.' });
