/**
 * Model files of the small API for tests of the command line.
 */
import { type ModelFile, modelFileSchema, pullSchema } from '../../src/contract/model-files.ts';
import { now_ms } from './fake-records.ts';

export type FakeModels = {
  files: ModelFile[];
  /** Changes that a model goes through: one for each time it is looked at by id. */
  script: Partial<ModelFile>[];
};

export function modelFile(id: string, more: Partial<ModelFile> = {}): ModelFile {
  return {
    ...{ id: id.padEnd(26, '0'), machine_id: 'm1', machine_name: 'box1', state: 'ready' },
    ...{ source: `hf://o/${id}@${'0'.repeat(40)}/${id}.gguf`, format: 'gguf', revision: null },
    ...{ sha256: null, bytes: 600_000_000, done_bytes: null, total_bytes: null },
    ...{ in_use_by: [], reason: null, checked: null, created_at: now_ms },
    ...more,
  };
}

type Call = { method: string; query: Record<string, string>; body: unknown };

/** Null where there is no such model. */
export function answerModels(
  { files, script }: FakeModels,
  { method, query, body }: Call,
  id: string | undefined,
): { status: number; body: unknown } | null {
  if (id === undefined && method === 'GET') {
    const from = Number(query.cursor ?? '0');
    const next_cursor = from + 2 < files.length ? String(from + 2) : null;
    const items = files.slice(from, from + 2).map((file) => modelFileSchema.strict().parse(file));
    return { status: 200, body: { items, next_cursor } };
  }
  if (id === undefined) {
    pullSchema.parse(body);
    const made = modelFile('pulled', { state: 'queued', bytes: null });
    files.push(made);
    return { status: 202, body: made };
  }
  const found = files.find((file) => file.id === id);
  if (found === undefined) return null;
  if (method === 'DELETE') files.splice(files.indexOf(found), 1);
  if (method === 'GET') Object.assign(found, script.shift());
  return { status: method === 'GET' ? 200 : 202, body: modelFileSchema.strict().parse(found) };
}
