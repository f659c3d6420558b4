/**
 * The GGUF validator: decides from a file's content alone whether an engine may be given it.
 *
 * Engines abort, crash, hang or read out of bounds on headers that they do not expect, so that no
 * file reaches one before this walk has passed. It reads the header only, in bounded chunks; the
 * weights themselves are not looked at, and what a chat template does at run time cannot be known
 * (the engine has a load deadline and a memory cap for that).
 *
 * Invariants: throws nothing but `Refusal` for a file's sake; memory is bounded whatever the file
 * says; a file that passes is accounted for to the last byte.
 */
import { plainText } from '../lib/text.ts';
import { gguf_limits as limits } from './gguf-limits.ts';
import { type GgufMetadata, readMetadata } from './gguf-metadata.ts';
import { alignmentOf, checkModel, type ModelFacts, shardOf, splitTensors } from './gguf-rules.ts';
import { type GgufTensors, readTensors } from './gguf-tensors.ts';
import type { ModelReader } from './validate-reader.ts';
import { must } from './validate-refusal.ts';

export type GgufModel = ModelFacts & {
  format: 'gguf';
  /** The name its maker gave, cut to 200 characters, or null. */
  name: string | null;
  file_bytes: number;
  tensor_count: number;
  /** Bytes of weights in this file. */
  tensor_bytes: number;
  parameter_count: number;
  chat_template: boolean;
  /**
   * Which part of a split model this is (index from 0), or null when it is whole. Parts after the
   * first carry tensors only: their architecture is empty and their settings are 0.
   */
  shard: { index: number; count: number } | null;
};

export type GgufFile = {
  model: GgufModel;
  tensor_names: ReadonlySet<string>;
  /** Tensors of all parts together, where the file says so. */
  split_tensors: number | null;
};

/** Walks one file; `reader` stands at its start. Throws `Refusal`. */
export async function walkGguf(reader: ModelReader): Promise<GgufFile> {
  const counts = await readCounts(reader);
  const metadata = await readMetadata(reader, counts.entries);
  const tensors = await readTensors(reader, counts.tensors, alignmentOf(metadata));
  return {
    model: describe(reader.file_bytes, metadata, tensors),
    tensor_names: tensors.names,
    split_tensors: splitTensors(metadata),
  };
}

async function readCounts(reader: ModelReader): Promise<{ tensors: number; entries: number }> {
  must(reader.bytes_left >= 24, 'truncated');
  await reader.need(24);
  const magic = reader.raw(24).slice();
  const head = new DataView(magic.buffer, magic.byteOffset);
  const version = head.getUint32(4, true);
  must((version & 0xffff) !== 0 || version === 0, 'big_endian');
  must(version === 2 || version === 3, 'version', () => `This one is version ${version}.`);
  const tensors = Number(head.getBigUint64(8, true));
  const entries = Number(head.getBigUint64(16, true));
  must(tensors <= limits.tensors, 'tensor_count', () => `It says ${tensors}.`);
  must(entries >= 1 && entries <= limits.entries, 'entry_count', () => `It says ${entries}.`);
  return { tensors, entries };
}

function describe(file_bytes: number, metadata: GgufMetadata, tensors: GgufTensors): GgufModel {
  const shard = shardOf(metadata);
  must(tensors.count > 0 || shard !== null, 'tensor_count', () => 'It has none.');
  const name = metadata.values.get('general.name');
  const text = name?.kind === 'string' && name.text !== null ? plainText(name.text) : null;
  return {
    ...checkModel(metadata, tensors, shard),
    format: 'gguf',
    name: text === null ? null : text.slice(0, limits.name_characters),
    file_bytes,
    tensor_count: tensors.count,
    tensor_bytes: tensors.bytes,
    parameter_count: tensors.parameters,
    chat_template: metadata.chat_template,
    shard,
  };
}
