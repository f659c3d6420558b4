/**
 * Model files made to cost as much time and memory as the rules allow: every count and length at
 * its bound, or far past it with nothing behind.
 *
 * Invariants: sparse where they can be, so that they cost the test's disk little.
 */
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { base, withEntries } from './gguf-changes.ts';
import { array, entry, type GgufFile, gguf_type, ggufFile, u64 } from './gguf-writer.ts';
import { safetensorsFile } from './safetensors-writer.ts';

type Bomb = { name: string; write(path: string): void };

function gguf(name: string, file: () => Partial<GgufFile>): Bomb {
  const good = { entries: base.entries, tensors: base.tensors };
  return { name, write: (path) => writeFileSync(path, ggufFile({ ...good, ...file() })) };
}

function header(name: string, text: () => string): Bomb {
  return { name, write: (path) => writeFileSync(path, safetensorsFile({ header: text() })) };
}

/** A file that says `head` and then holds zeros up to `size`. */
function sparse(name: string, head: Buffer, size: number): Bomb {
  return {
    name,
    write(path) {
      writeFileSync(path, head);
      truncateSync(path, size);
    },
  };
}

const empty_strings = (key: string, count: number) =>
  array(key, gguf_type.string, [Buffer.alloc(8 * count)], count);

const entries = (count: number, text: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => text(index)).join();

export const model_bombs: readonly Bomb[] = [
  gguf('15 million empty strings', () => ({
    entries: withEntries(empty_strings('x.names', 15_000_000)),
  })),
  gguf('a million empty tokens', () => ({
    entries: withEntries(empty_strings('tokenizer.ggml.tokens', 1 << 20)),
  })),
  gguf('65,000 tensors', () => ({
    tensors: Array.from({ length: 65_000 }, (_, index) => ({ name: `t${index}`, dims: [8] })),
  })),
  gguf('4,000 entries', () => ({
    entries: withEntries(...Array.from({ length: 4000 }, (_, index) => entry.u8(`x.k${index}`, 1))),
  })),
  gguf('a template of open brackets', () => ({
    entries: withEntries(entry.string('tokenizer.chat_template', '{{ ( }}'.repeat(37_000))),
  })),
  gguf('a template of assignments', () => ({
    entries: withEntries(entry.string('tokenizer.chat_template', '{%set a=b%}'.repeat(23_000))),
  })),
  gguf('a template of blocks', () => ({
    entries: withEntries(
      entry.string('tokenizer.chat_template', '{%if a%}{%endif%}'.repeat(15_000)),
    ),
  })),
  gguf('a template in one tag', () => ({
    entries: withEntries(entry.string('tokenizer.chat_template', `{{ ${'a.'.repeat(2400)}a }}`)),
  })),
  sparse('a sparse GGUF of 1 TB', ggufFile({ ...base, entry_count: 4096 }), 2 ** 40),
  sparse('a header of 100 MB of zeros', Buffer.concat([u64(100_000_000), Buffer.from('{"')]), 2e8),
  header('a header of 100 MB of spaces', () => `{${' '.repeat(99_999_990)}}`),
  header('65,000 tensors in JSON', () => {
    const place = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}';
    return `{${entries(65_000, (index) => `"${index}":${place}`)}}`;
  }),
  header('metadata of 90 MB', () => `{"__metadata__":{"a":"${'ab\\u00fc\\n'.repeat(9_000_000)}"}}`),
  header('names of 1,000 bytes', () => {
    const place = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}';
    return `{${entries(60_000, (index) => `"${String(index).padStart(1000, 'x')}":${place}`)}}`;
  }),
  {
    name: 'end records of a ZIP without end',
    write(path) {
      const data = Buffer.from('PK\u0005\u0006'.repeat(20_000));
      writeFileSync(
        path,
        safetensorsFile({ tensors: { w: { dtype: 'U8', shape: [80_000], data } } }),
      );
    },
  },
  {
    name: 'a pickle that goes on and on',
    write(path) {
      const data = Buffer.from(`\n${`V${'x'.repeat(60_000)}\n`.repeat(300)}`);
      const entry = { dtype: 'U8', shape: [data.length], data_offsets: [0, data.length] };
      const text = JSON.stringify({ w: entry }).padEnd(0x0156);
      writeFileSync(path, safetensorsFile({ header: text, data }));
    },
  },
  {
    name: 'a folder of settings at their bound',
    write(path) {
      mkdirSync(path);
      writeFileSync(
        join(path, 'w.safetensors'),
        safetensorsFile({ tensors: { w: { dtype: 'U8', shape: [1] } } }),
      );
      const text = `{"a":[${'0,'.repeat(500_000)}0]}`;
      for (let index = 0; index < 40; index += 1)
        writeFileSync(join(path, `${index}_config.json`), text);
    },
  },
];
