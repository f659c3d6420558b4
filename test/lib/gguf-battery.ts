/**
 * The battery: malformed files with the rule that must refuse each, and good ones. Shared by the
 * validator's tests and its benchmark.
 *
 * Invariants: every file differs from a good one in what its name says and nothing else.
 */
import {
  base,
  changed,
  good,
  longToken,
  patched,
  withEntries,
  without,
  withTemplate,
  withTensor,
  withToken,
} from './gguf-changes.ts';
import { badTemplates } from './gguf-template-battery.ts';
import { array, entry, gguf_type, ggufFile, ggufHeader, text, u32 } from './gguf-writer.ts';
import { evil_pickle, zipArchive } from './polyglots.ts';

export type BatteryFile = { name: string; rule: string | null; bytes: Buffer };

const template = "{% for message in messages %}{{ message['content'] }}{% endfor %}";

/** First byte token (`<0x00>`) and a plain one of the vocabulary that `successorModel` makes. */
const byte_token = 5;
const plain_token = 262;
const rms = 'llama.attention.layer_norm_rms_epsilon';

type Row = [name: string, rule: string, bytes: Buffer];

function containers(): Row[] {
  const whole = ggufFile(good);
  return [
    ['an empty file', 'unknown_format', Buffer.alloc(0)],
    ['a pickle named .gguf', 'unknown_format', Buffer.from('\u0080\u0004\u0095csystem', 'latin1')],
    ['a ZIP named .gguf', 'unknown_format', Buffer.from('PK\u0003\u0004archive/data.pkl')],
    [
      'a web page named .gguf',
      'unknown_format',
      Buffer.from('<!DOCTYPE html><title>Sign in</title>'),
    ],
    [
      'a pointer file',
      'unknown_format',
      Buffer.from('version https://git-lfs.github.com/spec/v1\n'),
    ],
    ['only the magic', 'truncated', Buffer.from('GGUF')],
    ['version 1', 'version', ggufFile({ ...good, version: 1 })],
    ['version 4', 'version', ggufFile({ ...good, version: 4 })],
    ['a big-endian file', 'big_endian', ggufFile({ ...good, version: 0x03000000 })],
    ['2^62 metadata entries', 'entry_count', ggufFile({ ...good, entry_count: 2n ** 62n })],
    ['-1 metadata entries', 'entry_count', ggufFile({ ...good, entry_count: -1n })],
    ['no metadata', 'entry_count', ggufFile({ ...good, entries: [] })],
    ['2^61 tensors', 'tensor_count', ggufFile({ ...good, tensor_count: 2n ** 61n })],
    ['no tensors', 'tensor_count', ggufFile({ ...good, tensors: [] })],
    ['a cut header', 'truncated', whole.subarray(0, 300)],
    ['cut weights', 'file_too_short', whole.subarray(0, whole.length - 100)],
    [
      'a trailing pickle',
      'file_too_long',
      ggufFile({ ...good, trailing: Buffer.from('\x80\x04.') }),
    ],
    ['a trailing ZIP', 'file_too_long', ggufFile({ ...good, trailing: Buffer.from('PK\x03\x04') })],
    ['trailing zeros', 'file_too_long', ggufFile({ ...good, trailing: Buffer.alloc(64) })],
    ['a ZIP inside its last tensor', 'polyglot_zip', withTensorData(zipArchive('data.pkl', 'x'))],
    ['a count that is also a pickle', 'polyglot_pickle', alsoPickle()],
    ['a payload in the padding', 'padding', patched(ggufHeader(good).length - 1, Buffer.from([1]))],
  ];
}

/** The good file with these bytes at its very end, as the last weights of a tensor. */
function withTensorData(last: Buffer): Buffer {
  const data = Buffer.concat([Buffer.alloc(128 - (last.length % 128)), last]);
  const tensor = { name: 'extra.weight', dims: [data.length / 4], data };
  return ggufFile({ ...good, tensors: [...base.tensors, tensor], unpadded_end: true });
}

/**
 * "GGUF", the version and the low byte of the count are a number to a pickle; a count of 0x5600
 * tensors or more then begins a text, which goes on to a line feed in the metadata.
 */
function alsoPickle(): Buffer {
  const count = 0x5600 - base.tensors.length;
  const extra = Array.from({ length: count }, (_, index) => ({ name: `e${index}`, dims: [8] }));
  const entries = withEntries(entry.string('general.description', `\n0${evil_pickle}`));
  return ggufFile({ entries: entries.reverse(), tensors: [...base.tensors, ...extra] });
}

function metadata(): Row[] {
  const huge = Buffer.concat([u32(0xffffffff), u32(0xffffffff)]);
  const raw = (key: string | Buffer, type: number, value: Buffer): Buffer =>
    ggufFile({ ...good, entries: [...base.entries, { key, type, value }] });
  return [
    ['a key of 2^64 bytes', 'key', patched(24, huge)],
    ['an empty key', 'key', raw('', gguf_type.u8, Buffer.alloc(1))],
    ['a key with a control character', 'key', raw('a\u0000b', gguf_type.u8, Buffer.alloc(1))],
    ['a key that is no UTF-8', 'utf8', raw(Buffer.from([0xc3]), gguf_type.u8, Buffer.alloc(1))],
    ['a key twice', 'duplicate_key', raw('llama.block_count', gguf_type.u32, u32(1))],
    ['an unknown value type', 'value_type', raw('x', 13, u32(1))],
    ['a bool of 2', 'bool_value', raw('x', gguf_type.bool, Buffer.from([2]))],
    ['a string of 2^64 bytes', 'string_size', raw('x', gguf_type.string, huge)],
    ['a string past the end', 'truncated', raw('x', gguf_type.string, text('').fill(255, 0, 3))],
    ['an array in an array', 'array_type', changed(array('x', gguf_type.array, []))],
    ['an array of an unknown type', 'array_type', changed(array('x', 99, []))],
    ['an array of 2^63 items', 'array_size', changed(array('x', gguf_type.u64, [], 2n ** 63n))],
    ['an array past the end', 'truncated', changed(array('x', gguf_type.u64, [], 2 ** 23))],
    ['strings past the end', 'truncated', changed(entry.strings('x', [], 2 ** 23))],
    ['alignment 0', 'alignment', changed(entry.u32('general.alignment', 0))],
    ['alignment 48', 'alignment', changed(entry.u32('general.alignment', 48))],
    ['alignment 131072', 'alignment', changed(entry.u32('general.alignment', 131_072))],
    ['alignment 2^31', 'alignment', changed(entry.u32('general.alignment', 2 ** 31))],
    ['alignment as a string', 'key_type', changed(entry.string('general.alignment', '32'))],
  ];
}

function tensors(): Row[] {
  const shifted = base.tensors.map((tensor, index) =>
    index === 1 ? { ...tensor, offset: 0 } : tensor,
  );
  return [
    ['a tensor name of 64 bytes', 'tensor_name', withTensor({ name: 'n'.repeat(64) })],
    ['an empty tensor name', 'tensor_name', withTensor({ name: '' })],
    ['a tensor name cut by a zero', 'tensor_name', withTensor({ name: 'a\u0000b' })],
    ['a tensor name that is no UTF-8', 'utf8', withTensor({ name: Buffer.from([0xff, 0xfe]) })],
    ['a tensor twice', 'duplicate_tensor', withTensor({ name: 'output.weight' })],
    ['five dimensions', 'tensor_dims', withTensor({ dims: [32, 1, 1, 1, 1] })],
    ['2^32 - 1 dimensions', 'tensor_dims', withTensor({ dim_count: 0xffffffff })],
    [
      'bytes that wrap by their padding',
      'tensor_size',
      withTensor({ dims: [2n ** 62n - 1n], bytes: 32 }),
    ],
    ['no dimensions', 'tensor_dims', withTensor({ dims: [], bytes: 32 })],
    ['a dimension of 0', 'tensor_dims', withTensor({ dims: [32, 0], bytes: 32 })],
    ['a dimension of -1', 'tensor_size', withTensor({ dims: [-1n], bytes: 32 })],
    [
      'dimensions that wrap to 0',
      'tensor_size',
      withTensor({ dims: [2 ** 32, 2 ** 32], bytes: 0 }),
    ],
    ['bytes that wrap', 'tensor_size', withTensor({ dims: [2n ** 53n - 1n], bytes: 32 })],
    [
      'a sum of tensors that wraps',
      'tensor_size',
      ggufFile({
        ...good,
        tensors: [1, 2].map((index) => ({
          name: `t${index}`,
          dims: [2 ** 50],
          bytes: 0,
          offset: index === 1 ? 0 : 2 ** 52,
        })),
      }),
    ],
    ['a removed tensor type', 'tensor_type', withTensor({ type: 4 })],
    ['an unknown tensor type', 'tensor_type', withTensor({ type: 0x7fffffff })],
    ['a weight of 64-bit integers', 'weight_type', withTensor({ type: 27, bytes: 256 })],
    ['a weight of 8-bit integers', 'weight_type', withTensor({ type: 24, bytes: 32 })],
    ['a row of half a block', 'tensor_row', withTensor({ dims: [48], type: 2 })],
    ['overlapping tensors', 'tensor_offset', ggufFile({ ...good, tensors: shifted })],
    ['a gap before a tensor', 'tensor_offset', withTensor({ offset: 2 ** 20 })],
    ['an offset near 2^64', 'tensor_offset', withTensor({ offset: -32n })],
    [
      'an embedding of another width',
      'embedding_shape',
      ggufFile({
        ...good,
        tensors: base.tensors.map((one) =>
          one.name === 'token_embd.weight' ? { ...one, dims: [...one.dims].reverse() } : one,
        ),
      }),
    ],
  ];
}

function settings(): Row[] {
  const u32s: [string, string, number][] = [
    ['block_count', 'block_count', 0],
    ['block_count', 'block_count', 513],
    ['block_count', 'block_count', 2 ** 31],
    ['context_length', 'context_length', 0],
    ['context_length', 'context_length', 2 ** 31],
    ['embedding_length', 'setting_bounds', 0],
    ['feed_forward_length', 'setting_bounds', 2 ** 31],
    ['attention.head_count', 'head_count', 0],
    ['attention.head_count', 'head_count', 3],
    ['attention.head_count', 'setting_bounds', 2 ** 20],
    ['attention.head_count_kv', 'head_count', 3],
    ['rope.dimension_count', 'head_count', 64],
    ['expert_count', 'expert_count', 513],
    ['expert_count', 'expert_count', 8],
    ['expert_used_count', 'expert_count', 2],
  ];
  const shards = [entry.u16('split.no', 3), entry.u16('split.count', 2)];
  return [
    ...u32s.map(
      ([name, rule, value]): Row => [
        `${name} ${value}`,
        rule,
        changed(entry.u32(`llama.${name}`, value)),
      ],
    ),
    ...[Number.NaN, 0, -1, Number.POSITIVE_INFINITY].map(
      (value): Row => [`norm epsilon ${value}`, 'epsilon', changed(entry.f32(rms, value))],
    ),
    ['rope base NaN', 'float_value', changed(entry.f32('llama.rope.freq_base', Number.NaN))],
    ['no epsilon', 'required_key', ggufFile({ ...good, entries: without(rms) })],
    ['no blocks key', 'required_key', ggufFile({ ...good, entries: without('llama.block_count') })],
    [
      'no architecture',
      'required_key',
      ggufFile({ ...good, entries: without('general.architecture') }),
    ],
    [
      'an architecture of dots',
      'architecture',
      changed(entry.string('general.architecture', '../x')),
    ],
    [
      'a vision projector',
      'not_a_language_model',
      changed(entry.string('general.architecture', 'clip')),
    ],
    [
      'a control vector',
      'not_a_language_model',
      changed(entry.string('general.architecture', 'controlvector')),
    ],
    [
      'a projector by type',
      'not_a_language_model',
      changed(entry.string('general.type', 'mmproj')),
    ],
    ['an adapter', 'not_a_language_model', changed(entry.string('general.type', 'adapter'))],
    ['a 64-bit block count', 'key_type', changed(entry.u64('llama.block_count', 1))],
    ['heads for no layer', 'layer_array', changed(array('llama.attention.head_count', 4, []))],
    ['part 4 of 2', 'shard', changed(...shards)],
  ];
}

/** What real engines were seen to abort on. */
function assertions(): Row[] {
  return [
    [
      'a macro that always calls itself',
      'template_recursion',
      withTemplate('{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}'),
    ],
    [
      'macros that always call each other',
      'template_recursion',
      withTemplate(
        '{%- macro a(x) -%}{% set y = b(x) %}{%- endmacro -%}' +
          '{%- macro b(x) -%}{{ c(x) }}{%- endmacro -%}{% macro c(x) %}{{ a(x) }}{% endmacro %}',
      ),
    ],
    [
      'an unknown rope scaling',
      'rope_scaling',
      changed(entry.string('llama.rope.scaling.type', 'x')),
    ],
    ['an empty rope scaling', 'rope_scaling', changed(entry.string('llama.rope.scaling.type', ''))],
    ['a rope scaling of 3', 'key_type', changed(entry.u32('llama.rope.scaling.type', 3))],
    [
      'more layers to predict than there are',
      'setting_bounds',
      changed(entry.u32('llama.nextn_predict_layers', 15)),
    ],
  ];
}

function vocabulary(): Row[] {
  const count = 360;
  return [
    ['no tokens', 'vocabulary', ggufFile({ ...good, entries: without('tokenizer.ggml.tokens') })],
    [
      '2^21 tokens',
      'vocabulary',
      changed(entry.strings('tokenizer.ggml.tokens', Array(2 ** 21).fill(''))),
    ],
    ['numbers as tokens', 'token_array_type', changed(entry.i32s('tokenizer.ggml.tokens', [1]))],
    ['a token of 5,000 bytes', 'token_size', withToken(plain_token, 'x'.repeat(5000))],
    ['a token that is no UTF-8', 'utf8', withToken(plain_token, Buffer.from([0xed, 0xa0, 0x80]))],
    ['a long token that is no UTF-8', 'utf8', withToken(plain_token, Buffer.alloc(200, 0xff))],
    ['a token twice', 'duplicate_token', withToken(plain_token, '"')],
    [
      'an empty token and its later name',
      'duplicate_token',
      withToken(plain_token, '', `[EMPTY_${plain_token}]`),
    ],
    ['the token <0x-1>', 'byte_token', withToken(byte_token, '<0x-1>')],
    [
      'the token <0x-1> for PLaMo-2',
      'byte_token',
      withToken(byte_token, '<0x-1>', undefined, entry.string('tokenizer.ggml.model', 'plamo2')),
    ],
    ['a token of 2^32 bytes', 'token_size', longToken(2n ** 32n)],
    ['a token of 2^63 bytes', 'token_size', longToken(2n ** 63n)],
    [
      'bytes in a vocabulary of merges',
      'byte_kind',
      changed(entry.string('tokenizer.ggml.model', 'gpt2')),
    ],
    [
      'bytes in a vocabulary of words',
      'byte_kind',
      changed(entry.string('tokenizer.ggml.model', 'bert')),
    ],
    ['a missing byte token', 'byte_tokens', withToken(byte_token, 'zero')],
    ['too few scores', 'token_arrays', changed(entry.f32s('tokenizer.ggml.scores', [0]))],
    [
      'scores as bytes',
      'token_array_type',
      changed(array('tokenizer.ggml.scores', gguf_type.i8, [Buffer.alloc(count)], count)),
    ],
    [
      'token types as texts',
      'token_array_type',
      changed(entry.strings('tokenizer.ggml.token_type', Array(count).fill(''))),
    ],
    [
      'tokens as bytes',
      'token_array_type',
      changed(array('tokenizer.ggml.tokens', gguf_type.u8, [Buffer.alloc(count)], count)),
    ],
    ['a score NaN', 'token_score', changed(entry.f32s('tokenizer.ggml.scores', [Number.NaN]))],
    ['too few token types', 'token_arrays', changed(entry.i32s('tokenizer.ggml.token_type', [1]))],
    ['a token type of 7', 'token_kind', changed(entry.i32s('tokenizer.ggml.token_type', [7]))],
    ['eos out of range', 'token_id', changed(entry.u32('tokenizer.ggml.eos_token_id', 2 ** 31))],
    ['bos out of range', 'token_id', changed(entry.u32('tokenizer.ggml.bos_token_id', 9999))],
    ['eos as a signed number', 'key_type', changed(entry.i32('tokenizer.ggml.eos_token_id', -1))],
  ];
}

function accepted(): [string, Buffer][] {
  return [
    ['the good file', ggufFile(good)],
    ['the good file in version 2', ggufFile({ ...good, version: 2 })],
    ['without padding at its end', ggufFile({ ...good, unpadded_end: true })],
    [
      'aligned to 4096',
      ggufFile({
        ...good,
        alignment: 4096,
        entries: withEntries(entry.u32('general.alignment', 4096)),
      }),
    ],
    ['weights that are not numbers', withTensor({ data: Buffer.alloc(128, 0xff) })],
    ['a token of another kind of byte', withToken(plain_token, '<0x41', undefined)],
    ['a tensor of every dimension', withTensor({ dims: [32, 1, 2, 1] })],
    ['a quantised tensor', withTensor({ dims: [256, 2], type: 12, bytes: 288 })],
    ['an empty token', withToken(plain_token, '')],
    ['no chat template', ggufFile({ ...good, entries: without('tokenizer.chat_template') })],
    ['an unused padding token', changed(entry.u32('tokenizer.ggml.padding_token_id', 0xffffffff))],
    [
      'a macro that calls itself where it must',
      withTemplate('{% macro a(x) %}{% if x %}{{ a(x[0]) }}{% endif %}{% endmacro %}{{ a([]) }}'),
    ],
    [
      'a macro that calls itself by an expression',
      withTemplate("{% macro a(x) %}{{ a(x[0]) if x else '' }}{% endmacro %}{{ a([]) }}"),
    ],
    ['mixed brackets in text and strings', withTemplate(`((( [[[ ${template}{{ '([{' }}`)],
    ['a template with a dict', withTemplate("{{ {'a': {'b': [1, 2]}} }}{# {{ #}")],
    [
      'a template that appends',
      withTemplate(
        "{% set ns = namespace(text='') %}{% for m in messages[1:] %}" +
          "{% set ns.text = ns.text + m['role'] + m['content'] %}{% endfor %}{{ ns.text }}",
      ),
    ],
  ];
}

/** Every file of the battery; made anew on each call. */
export function battery(): BatteryFile[] {
  const rows = [
    containers,
    metadata,
    tensors,
    settings,
    assertions,
    vocabulary,
    badTemplates,
  ].flatMap((make) => make());
  return [
    ...rows.map(([name, rule, bytes]) => ({ name, rule, bytes })),
    ...accepted().map(([name, bytes]) => ({ name, rule: null, bytes })),
  ];
}
