/**
 * The GGUF validator: decides from a file's content alone whether an engine may be given it.
 *
 * Engines abort, crash, hang or read out of bounds on headers that they do not expect, so that no
 * file reaches one before this walk has passed. It reads the header only, in bounded chunks; the
 * weights themselves are not looked at, and what a chat template does at run time cannot be known
 * (the engine has a load deadline and a memory cap for that).
 *
 * Invariants: never throws for a file's sake; memory is bounded whatever the file says; a file that
 * passes is accounted for to the last byte, so that nothing else hides in it; the name of the file
 * plays no part.
 */
import { constants, type FileHandle, open } from 'node:fs/promises';
import { isErrno } from '../lib/files.ts';
import { plainText } from '../lib/text.ts';
import { gguf_limits as limits } from './gguf-limits.ts';
import { type GgufMetadata, readMetadata } from './gguf-metadata.ts';
import { GgufReader } from './gguf-reader.ts';
import { must, Refusal } from './gguf-refusal.ts';
import { alignmentOf, checkModel, type ModelFacts, shardOf } from './gguf-rules.ts';
import { sniff, sniff_bytes } from './gguf-sniff.ts';
import { type GgufTensors, readTensors } from './gguf-tensors.ts';

export type GgufModel = ModelFacts & {
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

export type GgufVerdict =
  | { ok: true; model: GgufModel }
  | {
      ok: false;
      code: 'model_file_invalid' | 'model_file_unreadable';
      /** Id of the rule that was broken, one of `gguf_rules`. */
      rule: string;
      /** Sentences for a person. */
      message: string;
    };

/** Validates one file. Other than by a defect of ours it does not reject. */
export async function validateGguf(path: string): Promise<GgufVerdict> {
  let file: FileHandle | null = null;
  try {
    // Without O_NONBLOCK a named pipe would hold us until somebody writes to it.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await file.stat();
    must(stats.isFile(), 'not_a_file');
    return { ok: true, model: await walk(new GgufReader(file, stats.size)) };
  } catch (error) {
    const refusal = error instanceof Refusal ? error : fromSystem(error);
    const { code, rule } = refusal;
    return { ok: false, code, rule, message: plainText(refusal.message) };
  } finally {
    await file?.close();
  }
}

async function walk(reader: GgufReader): Promise<GgufModel> {
  const counts = await readCounts(reader);
  const metadata = await readMetadata(reader, counts.entries);
  const tensors = await readTensors(reader, counts.tensors, alignmentOf(metadata));
  return describe(reader.file_bytes, metadata, tensors);
}

async function readCounts(reader: GgufReader): Promise<{ tensors: number; entries: number }> {
  const head_bytes = Math.min(sniff_bytes, reader.file_bytes);
  await reader.need(head_bytes);
  const magic = reader.raw(head_bytes).slice();
  const is_gguf = Buffer.from(magic.subarray(0, 4)).toString('latin1') === 'GGUF';
  must(is_gguf, 'not_gguf', () => sniff(magic));
  must(magic.length >= 24, 'truncated');
  const head = new DataView(magic.buffer, magic.byteOffset);
  const version = head.getUint32(4, true);
  must((version & 0xffff) !== 0 || version === 0, 'big_endian');
  must(version === 2 || version === 3, 'version', () => `This one is version ${version}.`);
  const tensors = Number(head.getBigUint64(8, true));
  const entries = Number(head.getBigUint64(16, true));
  must(tensors <= limits.tensors, 'tensor_count', () => `It says ${tensors}.`);
  must(entries >= 1 && entries <= limits.entries, 'entry_count', () => `It says ${entries}.`);
  reader.rewind(24);
  return { tensors, entries };
}

function describe(file_bytes: number, metadata: GgufMetadata, tensors: GgufTensors): GgufModel {
  const shard = shardOf(metadata);
  must(tensors.count > 0 || shard !== null, 'tensor_count', () => 'It has none.');
  const name = metadata.values.get('general.name');
  const text = name?.kind === 'string' && name.text !== null ? plainText(name.text) : null;
  return {
    ...checkModel(metadata, tensors, shard),
    name: text === null ? null : text.slice(0, limits.name_characters),
    file_bytes,
    tensor_count: tensors.count,
    tensor_bytes: tensors.bytes,
    parameter_count: tensors.parameters,
    chat_template: metadata.chat_template,
    shard,
  };
}

function fromSystem(error: unknown): Refusal {
  if (isErrno(error, 'ENOENT') || isErrno(error, 'ENOTDIR')) return new Refusal('missing');
  if (!(error instanceof Error) || !('syscall' in error)) throw error;
  return new Refusal('unreadable', `The system says: ${error.message}.`);
}
