/**
 * The parts of a split GGUF model. The engine is given the first and opens the others by their
 * names, so that each of them is checked as the first was.
 *
 * Invariants: the names are those that the engine would open; together the parts hold each tensor
 * once and as many as they say.
 */
import { basename, dirname, join } from 'node:path';
import type { GgufFile, GgufModel } from './gguf.ts';
import { checkFile, type Refused, refused } from './validate-file.ts';
import { must } from './validate-refusal.ts';

const part_name = /^(?<stem>.*)-(?<number>\d{5})-of-(?<count>\d{5})\.gguf$/s;

type Shard = { index: number; count: number };

export async function checkSplit(
  path: string,
  first: GgufFile,
  shard: Shard,
): Promise<{ ok: true; model: GgufModel } | Refused> {
  try {
    const stem = stemOf(path, shard);
    must(shard.index === 0, 'shard_order', () => `This is part ${shard.index + 1}.`);
    const parts = [first];
    for (let index = 1; index < shard.count; index += 1) {
      const part = await checkFile(join(dirname(path), partName(stem, index, shard.count)));
      if (!part.ok && part.rule !== 'missing') return part;
      must(part.ok, 'shard_missing', () => `It is "${partName(stem, index, shard.count)}".`);
      must(part.format === 'gguf', 'shard_mismatch', () => `Part ${index + 1} is no GGUF file.`);
      const found = part.gguf.model.shard;
      must(
        found?.index === index && found.count === shard.count,
        'shard_mismatch',
        () => `Part ${index + 1} says that it is another.`,
      );
      parts.push(part.gguf);
    }
    checkTensors(parts);
    return { ok: true, model: together(parts, first.model) };
  } catch (error) {
    return refused(error, path);
  }
}

function stemOf(path: string, shard: Shard): string {
  const { stem, number, count } = part_name.exec(basename(path))?.groups ?? {};
  const fits = Number(number) === shard.index + 1 && Number(count) === shard.count;
  must(
    stem !== undefined && fits,
    'shard_name',
    () => `Part ${shard.index + 1} must end in "${partName('', shard.index, shard.count)}".`,
  );
  return stem;
}

function partName(stem: string, index: number, count: number): string {
  const digits = (value: number) => String(value).padStart(5, '0');
  return `${stem}-${digits(index + 1)}-of-${digits(count)}.gguf`;
}

function checkTensors(parts: readonly GgufFile[]): void {
  const names = new Set<string>();
  for (const { tensor_names } of parts) {
    for (const name of tensor_names) {
      must(!names.has(name), 'duplicate_tensor', () => `"${name}" is in two parts.`);
      names.add(name);
    }
  }
  for (const { split_tensors } of parts) {
    must(
      split_tensors === null || split_tensors === names.size,
      'shard_mismatch',
      () => `They say ${split_tensors} tensors and have ${names.size}.`,
    );
  }
}

function together(parts: readonly GgufFile[], first: GgufModel): GgufModel {
  const sum = (key: 'file_bytes' | 'tensor_count' | 'tensor_bytes' | 'parameter_count') =>
    parts.reduce((total, { model }) => total + model[key], 0);
  return {
    ...first,
    file_bytes: sum('file_bytes'),
    tensor_count: sum('tensor_count'),
    tensor_bytes: sum('tensor_bytes'),
    parameter_count: sum('parameter_count'),
  };
}
