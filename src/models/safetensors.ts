/**
 * The safetensors validator: decides from a file's content alone whether an engine may be given it.
 *
 * Engines differ in what they check (MLX looked at no offset until 2026-04), so that this walk is
 * the only guard that all of them have. It reads the header only; the weights are not looked at.
 *
 * Invariants: memory is bounded whatever the file says; a file that passes is accounted for to the
 * last byte: the tensors, ordered by place, begin where the header ends, follow each other without
 * gap or overlap and end with the file.
 */
import { type HeaderTensor, readHeader } from './safetensors-header.ts';
import type { ModelReader } from './validate-reader.ts';
import { must } from './validate-refusal.ts';

export type SafetensorsFile = {
  file_bytes: number;
  /** Bytes of weights. */
  tensor_bytes: number;
  parameter_count: number;
  /** Names of the tensors, each once. */
  tensor_names: readonly string[];
  /** Types that occur, by name. */
  types: readonly string[];
};

export async function walkSafetensors(reader: ModelReader): Promise<SafetensorsFile> {
  const { data_start, tensors } = await readHeader(reader);
  const tensor_bytes = extentOf(tensors);
  const size = reader.file_bytes;
  const whole = data_start + tensor_bytes;
  must(size >= whole, 'file_too_short', () => `It has ${size} bytes of ${whole}.`);
  must(size <= whole, 'file_too_long', () => `It has ${size - whole} bytes too many.`);
  return {
    file_bytes: size,
    tensor_bytes,
    parameter_count: tensors.reduce((sum, { elements }) => sum + elements, 0),
    tensor_names: tensors.map(({ name }) => name),
    types: [...new Set(tensors.map(({ type }) => type))].sort(),
  };
}

/** Where the tensors end, having checked that each lies right behind the one before. */
function extentOf(tensors: readonly HeaderTensor[]): number {
  const ordered = [...tensors].sort((one, other) => one.begin - other.begin || one.end - other.end);
  let at = 0;
  for (const { name, begin, end } of ordered) {
    must(
      begin === at,
      'tensor_offset',
      () => `"${name.slice(0, 200)}" lies at ${begin} and must lie at ${at}.`,
    );
    at = end;
  }
  return at;
}
