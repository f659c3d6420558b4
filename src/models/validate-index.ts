/**
 * Reads small JSON files of a model: the index of its parts, and whatever holds settings.
 *
 * Invariants: bounded in size and depth; an index names files of its own folder only.
 */
import { JsonCursor, type JsonObject, json_byte } from './json-cursor.ts';
import { safetensors_limits as limits } from './safetensors-limits.ts';
import { openFile } from './validate-file.ts';
import { must } from './validate-refusal.ts';

/** The tensors that each file must hold, by the file's name. */
export async function readIndex(path: string): Promise<Map<string, Set<string>>> {
  const document = await readObject(path, { values: limits.document_values });
  const map = document.get('weight_map');
  must(map instanceof Map && map.size > 0, 'index', () => 'It has no "weight_map".');
  const metadata = document.get('metadata');
  must(metadata === undefined || metadata instanceof Map, 'index', () => 'See "metadata".');
  const files = new Map<string, Set<string>>();
  for (const [tensor, file] of map) {
    must(typeof file === 'string', 'index', () => `See "${tensor.slice(0, 200)}".`);
    must(
      /^[^/\\:\p{Cc}]+\.safetensors$/u.test(file) && !file.startsWith('.'),
      'index_name',
      () => `It is "${file.slice(0, 200)}".`,
    );
    const tensors = files.get(file) ?? new Set();
    files.set(file, tensors.add(tensor));
  }
  return files;
}

/** The text of a file, whole. */
export async function readText(path: string, limit: number): Promise<Buffer> {
  const file = await openFile(path);
  try {
    const stats = await file.stat();
    must(stats.isFile(), 'not_a_file');
    must(stats.size <= limit, 'json_size', () => `It has ${stats.size} bytes.`);
    const bytes = Buffer.alloc(stats.size);
    let done = 0;
    while (done < bytes.length) {
      const { bytesRead } = await file.read(bytes, done, bytes.length - done, done);
      must(bytesRead > 0, 'changed');
      done += bytesRead;
    }
    return bytes;
  } finally {
    await file.close();
  }
}

/** How many values may still be read from the files of one model. */
export type Budget = { values: number };

/** A JSON file whose content is one object. */
export async function readObject(path: string, budget: Budget): Promise<JsonObject> {
  const bytes = await readText(path, limits.document_bytes);
  const cursor = new JsonCursor(bytes, {
    end_rule: 'json_syntax',
    whole_numbers: false,
    depth: limits.document_depth,
    values: budget.values,
    string_bytes: limits.document_bytes,
  });
  must(cursor.peek() === json_byte.open_object, 'json_syntax', () => 'It is no object.');
  const value = cursor.value();
  must(cursor.peek() === undefined, 'json_syntax', () => 'Something follows its end.');
  must(value instanceof Map, 'json_syntax');
  budget.values -= cursor.values;
  return value;
}
