/**
 * Decides whether an engine may be given a model: a file, all parts of a split one, or a folder.
 *
 * Called before each start of an endpoint, and by whoever wants to know. Content decides, never the
 * name; the name matters only where the engine itself finds further files by it.
 *
 * Invariants: never throws for a model's sake; every file that an engine would open because of this
 * path has passed; bounded in time and memory whatever the files say.
 */
import { stat } from 'node:fs/promises';
import type { GgufModel } from './gguf.ts';
import { checkFile, type Refused, refused } from './validate-file.ts';
import { checkFolder, type SafetensorsModel, safetensorsModel } from './validate-folder.ts';
import { checkSplit } from './validate-split.ts';

export type Model = GgufModel | SafetensorsModel;
export type ModelVerdict = { ok: true; model: Model } | Refused;

export async function validateModel(path: string): Promise<ModelVerdict> {
  try {
    if ((await stat(path)).isDirectory()) return await checkFolder(path);
  } catch (error) {
    return refused(error, path);
  }
  const file = await checkFile(path);
  if (!file.ok) return file;
  if (file.format === 'safetensors') {
    return { ok: true, model: safetensorsModel([file.safetensors]) };
  }
  const { shard } = file.gguf.model;
  return shard === null ? { ok: true, model: file.gguf.model } : checkSplit(path, file.gguf, shard);
}
