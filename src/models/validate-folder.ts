/**
 * A folder with a safetensors model: its parts, its index, its settings, and what else lies there.
 *
 * Invariants: every `*.safetensors` file has passed; with an index, the parts hold each tensor that
 * it maps exactly once and where it says, and none besides; nothing in the folder is code or a
 * format that can hold code, and no setting asks for any.
 */
import { opendir, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { SafetensorsFile } from './safetensors.ts';
import { safetensors_limits as limits } from './safetensors-limits.ts';
import { checkFile, type Refused, refused } from './validate-file.ts';
import { readIndex } from './validate-index.ts';
import { must } from './validate-refusal.ts';
import { checkSettings, type ModelSettings } from './validate-settings.ts';

export type SafetensorsModel = ModelSettings & {
  format: 'safetensors';
  file_bytes: number;
  tensor_count: number;
  tensor_bytes: number;
  parameter_count: number;
  /** Types of the tensors, by name. */
  types: readonly string[];
};

const index_name = 'model.safetensors.index.json';

/** Code, and formats that a Python tool runs code from or unpacks. */
const refused_ending =
  /\.(pyc?|bin|pt|pth|ckpt|pkl|pickle|joblib|npy|npz|h5|hdf5|keras|nemo|zip|7z|tar|tgz|gz|bz2|xz|rar|whl|so|dylib|dll|exe|sh|jar|mar|pb|tflite|msgpack)$/i;

export async function checkFolder(
  folder: string,
): Promise<{ ok: true; model: SafetensorsModel } | Refused> {
  let at = folder;
  try {
    const names = await filesOf(folder);
    for (const name of names) {
      at = join(folder, name);
      must(!refused_ending.test(name), 'beside_file', () => `It is "${name}".`);
    }
    const weights = new Map<string, SafetensorsFile>();
    for (const name of names.filter((one) => /\.safetensors$/i.test(one))) {
      at = join(folder, name);
      const checked = await checkFile(at);
      if (!checked.ok) return checked;
      must(checked.format === 'safetensors', 'unknown_format', () => 'It is GGUF by content.');
      weights.set(name, checked.safetensors);
    }
    at = folder;
    must(weights.size > 0, 'no_weights');
    const model_files = await chooseFiles(folder, names, weights, (path) => {
      at = path;
    });
    const settings = await checkSettings(folder, names, (path) => {
      at = path;
    });
    return { ok: true, model: safetensorsModel(model_files, settings) };
  } catch (error) {
    return refused(error, at);
  }
}

/** What is told of weights that have passed. */
export function safetensorsModel(
  files: readonly SafetensorsFile[],
  settings: ModelSettings = { architecture: '', context_length: 0, chat_template: false },
): SafetensorsModel {
  const sum = (key: 'file_bytes' | 'tensor_bytes' | 'parameter_count') =>
    files.reduce((total, file) => total + file[key], 0);
  return {
    format: 'safetensors',
    ...settings,
    file_bytes: sum('file_bytes'),
    tensor_count: files.reduce((total, { tensor_names }) => total + tensor_names.length, 0),
    tensor_bytes: sum('tensor_bytes'),
    parameter_count: sum('parameter_count'),
    types: [...new Set(files.flatMap(({ types }) => types))].sort(),
  };
}

/** The files that make the model: those of the index, or all, which then must not overlap. */
async function chooseFiles(
  folder: string,
  names: readonly string[],
  weights: ReadonlyMap<string, SafetensorsFile>,
  looking: (path: string) => void,
): Promise<SafetensorsFile[]> {
  if (!names.includes(index_name)) {
    const seen = new Set<string>();
    for (const [name, { tensor_names }] of weights) {
      looking(join(folder, name));
      for (const tensor of tensor_names) {
        must(!seen.has(tensor), 'duplicate_tensor', () => `"${tensor}" is in two files.`);
        seen.add(tensor);
      }
    }
    return [...weights.values()];
  }
  looking(join(folder, index_name));
  const mapped = await readIndex(join(folder, index_name));
  const chosen: SafetensorsFile[] = [];
  for (const [name, tensors] of mapped) {
    const file = weights.get(name);
    must(file !== undefined, 'shard_missing', () => `It is "${name}".`);
    const held = new Set(file.tensor_names);
    for (const tensor of tensors) {
      must(held.delete(tensor), 'index_tensor', () => `"${tensor}" is not in "${name}".`);
    }
    const [more] = held;
    must(more === undefined, 'index_tensor', () => `"${more}" of "${name}" is not mapped.`);
    chosen.push(file);
  }
  return chosen;
}

/** Paths of all files below the folder, relative to it and sorted. Links to folders are refused. */
async function filesOf(folder: string): Promise<string[]> {
  const found: string[] = [];
  const waiting = [{ path: folder, depth: 0 }];
  let entries = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for await (const entry of await opendir(next.path)) {
      entries += 1;
      must(entries <= limits.folder_entries, 'folder_size');
      const path = join(next.path, entry.name);
      if (entry.isDirectory()) {
        must(next.depth < limits.folder_depth, 'folder_size', () => 'It is too deep.');
        waiting.push({ path, depth: next.depth + 1 });
        continue;
      }
      const is_folder = entry.isSymbolicLink() && (await stat(path)).isDirectory();
      must(!is_folder, 'beside_file', () => `"${entry.name}" is a link to another folder.`);
      found.push(relative(folder, path));
    }
  }
  return found.sort();
}
