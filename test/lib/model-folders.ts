/**
 * Models of several files, broken and whole: split GGUF models, and folders with safetensors.
 *
 * Invariants: every model differs from a good one in what its name says and nothing else.
 */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { entry, type GgufTensor, ggufFile } from './gguf-writer.ts';
import { successorModel } from './known-answer.ts';
import { zipArchive } from './polyglots.ts';
import { safetensorsFile } from './safetensors-writer.ts';

export type ModelFolder = {
  name: string;
  rule: string | null;
  /** A text that begins with `->` is a link to the path behind it. */
  files: Record<string, Buffer | string>;
  /** What is validated: a file of the folder, or the folder itself. */
  open: string;
};

/** Writes the model below `root` and returns the path to validate. */
export function writeModelFolder(root: string, model: ModelFolder): string {
  mkdirSync(root, { recursive: true });
  for (const [name, content] of Object.entries(model.files)) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    if (typeof content === 'string' && content.startsWith('->'))
      symlinkSync(content.slice(2), path);
    else writeFileSync(path, content);
  }
  return join(root, model.open);
}

const base = successorModel({ name: 'split', words: ['ab'], ends: true, width: 16, blocks: 1 });
const [first, second, third] = [
  'model-00001-of-00003.gguf',
  'model-00002-of-00003.gguf',
  'model-00003-of-00003.gguf',
];

type Part = { index: number; count?: number; total?: number; tensors?: readonly GgufTensor[] };

function part({ index, count = 3, total, tensors }: Part): Buffer {
  const split = [
    entry.u16('split.no', index),
    entry.u16('split.count', count),
    entry.i32('split.tensors.count', total ?? base.tensors.length),
  ];
  const per_part = Math.ceil(base.tensors.length / 3);
  const own = base.tensors.slice(index * per_part, (index + 1) * per_part);
  return ggufFile({
    entries: index === 0 ? [...base.entries, ...split] : split,
    tensors: tensors ?? own,
  });
}

function splits(): ModelFolder[] {
  const whole = {
    [first]: part({ index: 0 }),
    [second]: part({ index: 1 }),
    [third]: part({ index: 2 }),
  };
  const split = (
    name: string,
    rule: string | null,
    changes: ModelFolder['files'],
    open = first,
  ) => ({
    ...{ name, rule, open },
    files: { ...whole, ...changes },
  });
  const { [second]: _, ...without_second } = whole;
  return [
    split('a split model', null, {}),
    split('a later part of a split model', 'shard_order', {}, second),
    { name: 'a part missing', rule: 'shard_missing', files: without_second, open: first },
    split('a part by a name of its own', 'shard_name', { 'a.gguf': part({ index: 0 }) }, 'a.gguf'),
    split('a part named as another', 'shard_name', { [first]: part({ index: 1 }) }),
    split('a part that says it is another', 'shard_mismatch', { [second]: part({ index: 2 }) }),
    split('a part of another split', 'shard_mismatch', { [third]: part({ index: 2, count: 4 }) }),
    split('a part that is a pickle', 'unknown_format', { [third]: '\u0080\u0004.' }),
    split('a part that is safetensors', 'shard_mismatch', { [third]: weights('w') }),
    split('a part cut short', 'file_too_short', {
      [third]: part({ index: 2 }).subarray(0, -64),
    }),
    split('a tensor in two parts', 'duplicate_tensor', {
      [third]: part({ index: 2, tensors: base.tensors.slice(0, 4) }),
    }),
    split('a part with too few tensors', 'shard_mismatch', {
      [third]: part({ index: 2, tensors: base.tensors.slice(-1) }),
    }),
  ];
}

function weights(...names: string[]): Buffer {
  const tensor = { dtype: 'F32', shape: [4] };
  return safetensorsFile({ tensors: Object.fromEntries(names.map((name) => [name, tensor])) });
}

const index_file = 'model.safetensors.index.json';
const [one, two] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
const map = { a: one, b: one, c: two };
const config = JSON.stringify({
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  max_position_embeddings: 8192,
  rope_scaling: { factor: 8.0, type: 'llama3' },
  auto_map: null,
});
const good: ModelFolder['files'] = {
  [one]: weights('a', 'b'),
  [two]: weights('c'),
  [index_file]: indexOf(map),
  'config.json': config,
  'tokenizer.json': '{"model":{"vocab":{"auto_map":0}}}',
  'tokenizer_config.json': JSON.stringify({ chat_template: '{{ messages }}', bos: '<s>' }),
  'README.md': '# A model',
  LICENSE: 'Apache-2.0',
};

function indexOf(weight_map: Record<string, unknown>, metadata: unknown = { total_size: 48 }) {
  return JSON.stringify({ metadata, weight_map });
}

function folder(name: string, rule: string | null, changes: ModelFolder['files']): ModelFolder {
  return { name, rule, files: { ...good, ...changes }, open: '' };
}

function indices(): ModelFolder[] {
  const mapped = (name: string, rule: string, index: string) =>
    folder(name, rule, { [index_file]: index });
  return [
    mapped('an index that leaves the folder', 'index_name', indexOf({ ...map, a: `../${one}` })),
    mapped('an index by a whole path', 'index_name', indexOf({ ...map, a: '/etc/w.safetensors' })),
    mapped(
      'an index by a path of Windows',
      'index_name',
      indexOf({ ...map, a: 'C:\\w.safetensors' }),
    ),
    mapped('an index of another format', 'index_name', indexOf({ ...map, a: 'model.bin' })),
    mapped('an index of numbers', 'index', indexOf({ ...map, a: 1 })),
    mapped('an index without its map', 'index', '{"metadata":{}}'),
    mapped('an empty index', 'index', indexOf({})),
    mapped('a tensor twice in the index', 'json_duplicate', `{"weight_map":{"a":"x","a":"y"}}`),
    mapped('an index that is a list', 'json_syntax', '[]'),
    mapped('an index with something after it', 'json_syntax', `${indexOf(map)}{}`),
    mapped('a part that is not there', 'shard_missing', indexOf({ d: 'model-3.safetensors' })),
    mapped('a tensor that is not there', 'index_tensor', indexOf({ ...map, d: two })),
    mapped('a tensor in another part', 'index_tensor', indexOf({ ...map, b: two })),
    mapped('a tensor that is not mapped', 'index_tensor', indexOf({ a: one, c: two })),
    folder('a part that is a pickle', 'unknown_format', { [two]: '\u0080\u0004.' }),
    folder('a part that is GGUF', 'unknown_format', { [two]: ggufFile(base) }),
    folder('a pickle with an odd case', 'unknown_format', { 'x.Safetensors': 'cos\nsystem\n' }),
    folder('a part that is also a ZIP', 'polyglot_zip', { 'z.safetensors': alsoZip() }),
  ];
}

function alsoZip(): Buffer {
  const data = zipArchive('archive/data.pkl', 'x');
  return safetensorsFile({ tensors: { w: { dtype: 'U8', shape: [data.length], data } } });
}

function surroundings(): ModelFolder[] {
  const endings = 'py bin pt pth ckpt pkl joblib npy h5 keras nemo zip 7z so PT Pkl'.split(' ');
  const deep = `${'{"a":'.repeat(65)}1${'}'.repeat(65)}`;
  const code = { auto_map: { AutoModel: 'modeling.Model' } };
  const looping = '{% for i in range(2000000000) %}{% endfor %}';
  const template = (chat_template: unknown) => ({
    'tokenizer_config.json': JSON.stringify({ chat_template }),
  });
  return [
    ...endings.map((ending) => folder(`a file .${ending}`, 'beside_file', { [`x.${ending}`]: '' })),
    folder('code in a folder below', 'beside_file', { 'original/model.py': '' }),
    folder('a link to another folder', 'beside_file', { more: '->/etc' }),
    folder('code by the settings', 'remote_code', { 'config.json': JSON.stringify(code) }),
    folder('code deep in the settings', 'remote_code', {
      'config.json': JSON.stringify({ a: [{ vision: { trust_remote_code: true } }] }),
    }),
    folder('code by the tokenizer', 'remote_code', {
      'tokenizer_config.json': JSON.stringify(code),
    }),
    folder('code by an escaped name', 'remote_code', {
      'config.json': '{"auto\\u005fmap":{"AutoModel":"m.M"}}',
    }),
    folder('settings twice', 'json_duplicate', { 'config.json': '{"a":1,"a":2}' }),
    folder('settings nested deep', 'json_depth', { 'config.json': deep }),
    folder('settings that are no JSON', 'json_syntax', { 'config.json': '<html>' }),
    folder('settings of 17 MB', 'json_size', { 'config.json': ' '.repeat(17 << 20) }),
    folder('settings of a million values', 'json_size', {
      'config.json': `{"a":[${'0,'.repeat(1 << 20)}0]}`,
    }),
    folder('settings of a million values in ten files', 'json_size', {
      ...Object.fromEntries(
        Array.from({ length: 10 }, (_, index) => [
          `${index}_config.json`,
          `{"a":[${'0,'.repeat(100_000)}0]}`,
        ]),
      ),
    }),
    folder('a template that loops', 'template_number', template(looping)),
    folder(
      'a named template that loops',
      'template_number',
      template([{ name: 'x', template: looping }]),
    ),
    folder('a template of its own that loops', 'template_number', {
      'chat_template.jinja': looping,
    }),
    folder('folders in folders', 'folder_size', { [`${'a/'.repeat(10)}x.txt`]: '' }),
    { name: 'no weights', rule: 'no_weights', files: { 'config.json': config }, open: '' },
    {
      name: 'a tensor in two files',
      rule: 'duplicate_tensor',
      files: { 'a.safetensors': weights('w'), 'b.safetensors': weights('w') },
      open: '',
    },
  ];
}

function accepted(): ModelFolder[] {
  return [
    folder('a folder', null, {}),
    folder('a folder with weights twice', null, { 'consolidated.safetensors': weights('a', 'c') }),
    folder('files that are links', null, { [two]: '->blobs/x', 'blobs/x': weights('c') }),
    {
      name: 'one file and nothing else',
      rule: null,
      files: { 'model.safetensors': weights('w') },
      open: '',
    },
  ];
}

/** Every model of the battery; made anew on each call. */
export function modelFolders(): ModelFolder[] {
  return [...splits(), ...indices(), ...surroundings(), ...accepted()];
}
