/**
 * Ways to spoil the small GGUF file that all of the battery starts from.
 *
 * Invariants: each makes one change, and the rest of the file stays well-formed.
 */
import {
  array,
  entry,
  type GgufEntry,
  type GgufFile,
  type GgufTensor,
  gguf_type,
  ggufFile,
  u64,
} from './gguf-writer.ts';
import { successorModel } from './known-answer.ts';

export const base = successorModel({
  name: 'small',
  words: ['ab', '▁b'],
  ends: true,
  width: 16,
  blocks: 1,
});
export const good: GgufFile = { entries: base.entries, tensors: base.tensors };

/** The good file's entries with some replaced (by key) or added. */
export function withEntries(...changes: GgufEntry[]): GgufEntry[] {
  const keys = new Set(changes.map(({ key }) => String(key)));
  return [...base.entries.filter(({ key }) => !keys.has(String(key))), ...changes];
}

export function without(key: string): GgufEntry[] {
  return base.entries.filter((one) => one.key !== key);
}

export function changed(...changes: GgufEntry[]): Buffer {
  return ggufFile({ ...good, entries: withEntries(...changes) });
}

export function withTemplate(template: string | Buffer): Buffer {
  return changed(entry.string('tokenizer.chat_template', template));
}

/** The good file with one more tensor at the end. */
export function withTensor(tensor: Partial<GgufTensor>): Buffer {
  const extra = { name: 'extra.weight', dims: [32], ...tensor };
  return ggufFile({ ...good, tensors: [...base.tensors, extra] });
}

/** The good file with one token replaced, and its neighbour when `next` is given. */
export function withToken(
  index: number,
  token: string | Buffer,
  next?: string,
  ...changes: GgufEntry[]
): Buffer {
  const tokens = base.entries.find(({ key }) => key === 'tokenizer.ggml.tokens');
  const list: Buffer[] = [];
  const bytes = tokens?.value ?? Buffer.alloc(0);
  for (let at = 12; at < bytes.length; ) {
    const end = at + 8 + Number(bytes.readBigUInt64LE(at));
    list.push(bytes.subarray(at + 8, end));
    at = end;
  }
  list[index] = Buffer.from(token);
  if (next !== undefined) list[index + 1] = Buffer.from(next);
  return changed(entry.strings('tokenizer.ggml.tokens', list), ...changes);
}

/** The good file whose first token says that it has this many bytes. */
export function longToken(length: bigint): Buffer {
  return changed(array('tokenizer.ggml.tokens', gguf_type.string, [u64(length)], 360));
}

export function patched(offset: number, bytes: Buffer): Buffer {
  const file = ggufFile(good);
  bytes.copy(file, offset);
  return file;
}
