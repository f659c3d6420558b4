/**
 * Walks the header of a safetensors file, entry by entry.
 *
 * Invariants: holds one chunk of the file and what it keeps of each tensor, whatever the header's
 * length; every byte of the header is looked at; no value of the metadata is kept.
 */
import { JsonCursor, type JsonOptions, type JsonValue, json_byte } from './json-cursor.ts';
import { skipJsonString } from './json-skip.ts';
import { safetensors_limits as limits } from './safetensors-limits.ts';
import { typeBits } from './safetensors-types.ts';
import type { ModelReader } from './validate-reader.ts';
import { isPlain, type ModelRule, must } from './validate-refusal.ts';

export type HeaderTensor = {
  name: string;
  type: string;
  elements: number;
  /** Where it lies, counted from the end of the header. */
  begin: number;
  end: number;
};

export type SafetensorsHeader = {
  /** Where the tensors' bytes begin in the file. */
  data_start: number;
  tensors: readonly HeaderTensor[];
};

const metadata_name = '__metadata__';
const entry_parts = ['data_offsets', 'dtype', 'shape'];

/** Reads all of the header; `reader` stands at the start of the file. */
export async function readHeader(reader: ModelReader): Promise<SafetensorsHeader> {
  await reader.need(8);
  const length = reader.u64();
  must(length <= limits.header_bytes, 'header_size', () => `It says ${length} bytes.`);
  must(length <= reader.bytes_left, 'truncated', () => `It says ${length} bytes of header.`);
  const walk = new HeaderWalk(reader, 8 + length);
  await walk.run();
  return { data_start: 8 + length, tensors: [...walk.tensors.values()] };
}

class HeaderWalk {
  readonly tensors = new Map<string, HeaderTensor>();
  readonly #reader: ModelReader;
  readonly #end: number;
  #has_metadata = false;

  constructor(reader: ModelReader, end: number) {
    this.#reader = reader;
    this.#end = end;
  }

  async run(): Promise<void> {
    await this.#members((cursor, name) => {
      if (name === metadata_name) {
        must(!this.#has_metadata, 'json_duplicate', () => `It is "${name}".`);
        this.#has_metadata = true;
        must(cursor.peek() === json_byte.open_object, 'header_metadata');
        return () => this.#metadata();
      }
      must(!this.tensors.has(name), 'json_duplicate', () => `It is "${name.slice(0, 200)}".`);
      must(this.tensors.size < limits.tensors, 'tensor_count', () => 'It has too many.');
      this.tensors.set(name, tensorOf(name, cursor.value()));
      return null;
    });
    must(this.tensors.size > 0, 'tensor_count', () => 'It has none.');
    await this.#onlySpace();
  }

  async #metadata(): Promise<void> {
    const names = new Set<string>();
    await this.#members((cursor, name) => {
      must(!names.has(name), 'json_duplicate', () => `It is "${name.slice(0, 200)}".`);
      names.add(name);
      must(names.size <= limits.metadata_entries, 'header_metadata', () => 'It has too many.');
      must(cursor.peek() === json_byte.quote, 'header_metadata', () => `See "${name}".`);
      return () => skipJsonString(this.#reader, this.#end);
    });
  }

  /**
   * Walks one object. `visit` reads a member's value, or returns what reads it from the file where
   * it may be longer than a window.
   */
  async #members(
    visit: (cursor: JsonCursor, name: string) => (() => Promise<void>) | null,
  ): Promise<void> {
    let cursor = await this.#window();
    cursor.take(json_byte.open_object);
    if (cursor.takes(json_byte.close_object)) {
      this.#reader.skip(cursor.at);
      return;
    }
    for (;;) {
      const name = cursor.string(limits.name_bytes);
      cursor.take(json_byte.colon);
      const rest = visit(cursor, name);
      this.#reader.skip(cursor.at);
      await rest?.();
      cursor = await this.#window();
      if (!cursor.takes(json_byte.comma)) break;
    }
    cursor.take(json_byte.close_object);
    this.#reader.skip(cursor.at);
  }

  /** A cursor over what lies next; it says itself when an entry does not fit into it. */
  async #window(): Promise<JsonCursor> {
    const left = this.#end - this.#reader.offset;
    const count = Math.min(left, limits.entry_bytes);
    await this.#reader.need(count);
    const end_rule = count === left ? 'json_syntax' : 'json_size';
    return new JsonCursor(this.#reader.buffered(count), windowOptions(end_rule));
  }

  /** Writers fill the header up with spaces, so that the tensors begin at a multiple of eight. */
  async #onlySpace(): Promise<void> {
    while (this.#reader.offset < this.#end) {
      const count = Math.min(this.#end - this.#reader.offset, limits.entry_bytes);
      await this.#reader.need(count);
      const blank = this.#reader.raw(count).every((byte) => byte === 0x20);
      must(blank, 'json_syntax', () => 'Something follows its end.');
    }
  }
}

function windowOptions(end_rule: ModelRule): JsonOptions {
  const string_bytes = limits.name_bytes;
  return { end_rule, whole_numbers: true, depth: 2, values: 64, string_bytes };
}

function tensorOf(name: string, value: JsonValue): HeaderTensor {
  const shown = name.slice(0, 200);
  must(isPlain(name), 'tensor_name', () => 'It is in the header.');
  must(value instanceof Map, 'header_entry', () => `It is "${shown}".`);
  const parts = [...value.keys()].sort();
  must(parts.join() === entry_parts.join(), 'header_entry', () => `It is "${shown}".`);
  const [type, shape, place] = [value.get('dtype'), value.get('shape'), value.get('data_offsets')];
  must(typeof type === 'string', 'header_entry', () => `The type of "${shown}".`);
  must(isWholeNumbers(shape), 'header_entry', () => `The shape of "${shown}".`);
  must(shape.length <= limits.dims, 'tensor_dims', () => `"${shown}" has ${shape.length}.`);
  must(
    isWholeNumbers(place) && place.length === 2,
    'header_entry',
    () => `The place of "${shown}".`,
  );
  const [begin = 0, end = 0] = place;
  return { name, type, ...sizeOf(shown, type, shape, end - begin), begin, end };
}

function sizeOf(name: string, type: string, shape: readonly number[], bytes: number) {
  const bits = typeBits(type);
  must(bits !== undefined, 'tensor_type', () => `"${name}" has type ${type.slice(0, 40)}.`);
  let elements = 1;
  for (const dim of shape) {
    // A zero must not hide a product that other readers would have overflowed on before it.
    must(Number.isSafeInteger(Math.max(1, elements) * dim * 8), 'tensor_size', () => `"${name}".`);
    elements *= dim;
  }
  must(Number.isSafeInteger(elements * bits), 'tensor_size', () => `It is "${name}".`);
  must((elements * bits) % 8 === 0, 'tensor_bits', () => `It is "${name}".`);
  const right = (elements * bits) / 8;
  must(bytes === right, 'tensor_extent', () => `"${name}" has ${bytes} bytes and needs ${right}.`);
  return { elements };
}

function isWholeNumbers(value: JsonValue | undefined): value is readonly number[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'number');
}
