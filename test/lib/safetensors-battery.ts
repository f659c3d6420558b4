/**
 * The battery of the safetensors validator: malformed files with the rule that must refuse each,
 * and good ones.
 *
 * Invariants: every file differs from a good one in what its name says and nothing else.
 */
import type { BatteryFile } from './gguf-battery.ts';
import { pickleAfter, zipArchive } from './polyglots.ts';
import { type SafetensorsParts, safetensorsFile, safetensorsHeader } from './safetensors-writer.ts';

const tensors = {
  'model.embed.weight': { dtype: 'F32', shape: [4, 2] },
  'model.norm.weight': { dtype: 'BF16', shape: [2] },
} as const;
const good: SafetensorsParts = { tensors, metadata: { format: 'pt' } };
const norm_end = 36;

type Row = [name: string, rule: string, bytes: Buffer];

/** The good file with its header's text changed; the data stays. */
function rewritten(from: string | RegExp, to: string): Buffer {
  const header = safetensorsHeader(good);
  const changed = header.replace(from, () => to);
  if (changed === header) throw new Error(`nothing to replace: ${from}`);
  return safetensorsFile({ ...good, header: changed });
}

/** A file of one tensor with this entry, and as many bytes of data. */
function entryOf(entry: string, data_bytes = 8): Buffer {
  return safetensorsFile({ header: `{"w":${entry}}`, data: Buffer.alloc(data_bytes) });
}

function placed(dtype: string, shape: string, begin: string, end: string, data_bytes = 8): Buffer {
  return entryOf(
    `{"dtype":"${dtype}","shape":${shape},"data_offsets":[${begin},${end}]}`,
    data_bytes,
  );
}

function containers(): Row[] {
  const whole = safetensorsFile(good);
  return [
    ['only the length', 'unknown_format', whole.subarray(0, 8)],
    ['a cut header', 'truncated', whole.subarray(0, 60)],
    ['cut weights', 'file_too_short', whole.subarray(0, whole.length - 1)],
    ['a header of 2^64 bytes', 'header_size', safetensorsFile({ ...good, header_length: -1n })],
    ['a header of 10^8 + 1 bytes', 'header_size', lengthOf(100_000_001)],
    ['a header past the end', 'truncated', lengthOf(4096)],
    ['a header of 0 bytes', 'json_syntax', lengthOf(0)],
    ['a header that ends too early', 'json_syntax', lengthOf(40)],
    ['a header that begins with a space', 'unknown_format', rewritten('{', ' {')],
    ['a list as header', 'unknown_format', safetensorsFile({ header: '[]' })],
    ['no tensors', 'tensor_count', safetensorsFile({ tensors: {} })],
    ['only metadata', 'tensor_count', safetensorsFile({ metadata: { format: 'pt' } })],
    ['a trailing pickle', 'file_too_long', trailing(Buffer.from('\x80\x04.', 'latin1'))],
    ['a trailing ZIP', 'file_too_long', trailing(zipArchive('archive/data.pkl', 'x'))],
    ['trailing zeros', 'file_too_long', trailing(Buffer.alloc(8))],
    ['text after the header', 'json_syntax', rewritten(/\}$/, '} x')],
    ['a second header after the first', 'json_syntax', rewritten(/\}$/, '}{}')],
    ['zeros after the header', 'json_syntax', rewritten(/\}$/, '}\0\0')],
    ['a ZIP inside its last tensor', 'polyglot_zip', inside(zipArchive('archive/data.pkl', 'x'))],
    ['a length that is also a pickle', 'polyglot_pickle', pickleAfter(0x0156)],
  ];
}

function lengthOf(header_length: number): Buffer {
  return safetensorsFile({ ...good, header_length });
}

function trailing(bytes: Buffer): Buffer {
  return safetensorsFile({ ...good, trailing: bytes });
}

function inside(data: Buffer): Buffer {
  return safetensorsFile({ tensors: { w: { dtype: 'U8', shape: [data.length], data } } });
}

function texts(): Row[] {
  const raw = (bytes: Buffer) => safetensorsFile({ header: bytes, data: Buffer.alloc(8) });
  const entry = '{"dtype":"U8","shape":[8],"data_offsets":[0,8]}';
  const twice = `{"w":${entry},"\\u0077":${entry}}`;
  const nested = (count: number) => '['.repeat(count) + ']'.repeat(count);
  return [
    ['a tensor twice', 'json_duplicate', raw(Buffer.from(`{"w":${entry},"w":${entry}}`))],
    ['a tensor twice by an escape', 'json_duplicate', raw(Buffer.from(twice))],
    ['a part of an entry twice', 'json_duplicate', rewritten('"dtype"', '"dtype":"I8","dtype"')],
    ['metadata twice', 'json_duplicate', rewritten('{', '{"__metadata__":{},')],
    ['a name of metadata twice', 'json_duplicate', rewritten('{"format"', '{"format":"","format"')],
    ['a comma too many', 'json_syntax', rewritten(/\}$/, ',}')],
    ['a comma missing', 'json_syntax', rewritten('},"model.norm', '}"model.norm')],
    ['a name without quotes', 'json_syntax', rewritten('"dtype"', 'dtype')],
    ['single quotes', 'json_syntax', rewritten('"dtype"', "'dtype'")],
    ['a comment', 'json_syntax', rewritten('"dtype"', '/* */"dtype"')],
    ['NaN', 'json_syntax', rewritten('[4,2]', '[NaN,2]')],
    ['a number with a leading zero', 'json_syntax', rewritten('[4,2]', '[04,2]')],
    ['a name with a control character', 'json_syntax', rewritten('norm.w', 'norm\n')],
    ['a name with an escaped zero', 'tensor_name', rewritten('norm.w', 'norm\\u0000')],
    ['an empty name', 'tensor_name', rewritten('model.norm.weight', '')],
    ['a name of 2,000 bytes', 'json_string', rewritten('norm.w', 'n'.repeat(2000))],
    ['an unknown escape', 'json_syntax', rewritten('norm.w', 'norm\\q')],
    ['half a character', 'utf8', rewritten('norm.w', 'norm\\ud800')],
    ['a name that is no UTF-8', 'utf8', raw(Buffer.from(`{"\xff":${entry}}`, 'latin1'))],
    ['metadata that is no UTF-8', 'utf8', withMetadata('"a":"\xff"')],
    ['metadata with a control character', 'json_syntax', withMetadata('"a":"\t"')],
    ['metadata with half a character', 'json_syntax', withMetadata('"a":"\\udc00"')],
    ['metadata that does not end', 'json_syntax', raw(Buffer.from('{"__metadata__":{"a":"b'))],
    ['a number as metadata', 'header_metadata', withMetadata('"a":1')],
    ['metadata of metadata', 'header_metadata', withMetadata('"a":{}')],
    ['a list as metadata', 'header_metadata', rewritten('{"format":"pt"}', '[]')],
    ['null as metadata', 'header_metadata', rewritten('{"format":"pt"}', 'null')],
    ['5,000 names of metadata', 'header_metadata', manyNames(5000)],
    ['100,000 nested lists', 'json_depth', rewritten('[4,2]', nested(10_000))],
    ['nested objects', 'json_depth', rewritten('[4,2]', '{"a":{"b":{"c":1}}}')],
    ['a shape of 10^5 numbers', 'json_size', rewritten('[4,2]', `[1${',1'.repeat(99_999)}]`)],
    ['an entry of 100,000 spaces', 'json_size', rewritten('[4,2]', `[${' '.repeat(100_000)}4,2]`)],
    ['65,537 tensors', 'tensor_count', manyTensors(65_537)],
  ];
}

/** The good file with this text as its metadata, byte for byte. */
function withMetadata(members: string): Buffer {
  const header = safetensorsHeader(good).replace('{"format":"pt"}', () => `{${members}}`);
  return safetensorsFile({ ...good, header: Buffer.from(header, 'latin1') });
}

function manyNames(count: number): Buffer {
  const names = Array.from({ length: count }, (_, index) => [`n${index}`, '']);
  return safetensorsFile({ ...good, metadata: Object.fromEntries(names) });
}

function manyTensors(count: number): Buffer {
  const empty = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}';
  const entries = Array.from({ length: count }, (_, index) => `"${index}":${empty}`);
  return safetensorsFile({ header: `{${entries.join()}}` });
}

function entries(): Row[] {
  const huge = String(2 ** 62);
  return [
    ['an entry that is a text', 'header_entry', entryOf('"U8"')],
    ['an entry that is null', 'header_entry', entryOf('null')],
    ['an entry without a type', 'header_entry', entryOf('{"shape":[8],"data_offsets":[0,8]}')],
    ['an entry with more', 'header_entry', rewritten('"dtype"', '"code":"os","dtype"')],
    ['a type that is a number', 'header_entry', rewritten('"F32"', '32')],
    ['a shape that is a text', 'header_entry', rewritten('[4,2]', '"4,2"')],
    ['a shape of texts', 'header_entry', rewritten('[4,2]', '["4","2"]')],
    ['a place of one number', 'header_entry', rewritten('[0,32]', '[32]')],
    ['a place of three', 'header_entry', rewritten('[0,32]', '[0,32,32]')],
    ['an unknown type', 'tensor_type', placed('F128', '[1]', '0', '8')],
    ['a type in small letters', 'tensor_type', placed('u8', '[8]', '0', '8')],
    ['nine dimensions', 'tensor_dims', placed('U8', '[8,1,1,1,1,1,1,1,1]', '0', '8')],
    ['a negative dimension', 'json_number', placed('U8', '[-8]', '0', '8')],
    ['two negative dimensions', 'json_number', placed('U8', '[-4,-2]', '0', '8')],
    ['a fractional dimension', 'json_number', placed('U8', '[0.5,16]', '0', '8')],
    ['a dimension with an exponent', 'json_number', placed('U8', '[8e0]', '0', '8')],
    ['a dimension of 2^53', 'json_number', placed('U8', '[9007199254740992]', '0', '8')],
    ['a dimension of 400 digits', 'json_number', placed('U8', `[${'9'.repeat(401)}]`, '0', '8')],
    [
      'a shape that wraps to 0',
      'tensor_size',
      placed('U8', `[4294967296,4294967296]`, '0', '0', 0),
    ],
    [
      'a shape that wraps before its zero',
      'tensor_size',
      placed('U8', '[4294967296,4294967296,0]', '0', '0', 0),
    ],
    ['bytes that wrap', 'tensor_size', placed('F64', '[2305843009213693]', '0', '8')],
    ['a place that is too small', 'tensor_extent', placed('U8', '[9]', '0', '8')],
    ['a place that is too large', 'tensor_extent', placed('U8', '[7]', '0', '8')],
    ['a place that ends before it begins', 'tensor_extent', placed('U8', '[8]', '8', '0')],
    ['a negative place', 'json_number', placed('U8', '[8]', '-8', '0')],
    ['a place past 2^53', 'json_number', placed('U8', '[8]', huge, huge)],
    ['half a byte', 'tensor_bits', placed('F4', '[15]', '0', '8')],
    ['six bits', 'tensor_bits', placed('F6_E2M3', '[3]', '0', '3', 3)],
    ['a hole before a tensor', 'tensor_offset', hole()],
    ['a hole at the start', 'tensor_offset', placed('U8', '[8]', '8', '16', 16)],
    ['overlapping tensors', 'tensor_offset', rewritten('[32,36]', '[28,32]')],
    ['the same place twice', 'tensor_offset', rewritten(/"BF16","shape":\[2\],.*$/, same)],
  ];
}

const same = '"BF16","shape":[16],"data_offsets":[0,32]}}';

function hole(): Buffer {
  const header = safetensorsHeader(good).replace('[32,36]', '[40,44]');
  return safetensorsFile({ ...good, header, data: Buffer.alloc(44) });
}

function accepted(): [string, Buffer][] {
  const every = ['BOOL', 'U8', 'I8', 'F8_E5M2', 'F8_E4M3', 'F8_E8M0', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ'];
  every.push('I16', 'U16', 'F16', 'BF16', 'I32', 'U32', 'F32', 'C64', 'F64', 'I64', 'U64');
  every.push('F4', 'F6_E2M3', 'F6_E3M2');
  const reversed = safetensorsHeader(good).replace(
    /^\{(.*?\}),(.*\}),(".*\})\}$/,
    (_, first, second, third) => `{${third},${first},${second}}`,
  );
  return [
    ['the good file', safetensorsFile(good)],
    [
      'a header that is not filled up',
      safetensorsFile({ ...good, header: safetensorsHeader(good) }),
    ],
    ['entries in another order', safetensorsFile({ ...good, header: reversed })],
    ['spaces and lines between', safetensorsFile({ ...good, header: pretty() })],
    ['metadata of 3 MB', safetensorsFile({ ...good, metadata: { long: 'ü"\\\n😀'.repeat(3e5) } })],
    [
      'names in other scripts',
      safetensorsFile({ tensors: { 'поле/層😀': tensors['model.norm.weight'] } }),
    ],
    ['a name of JavaScript', safetensorsFile({ tensors: named('__proto__') })],
    ['a scalar', safetensorsFile({ tensors: { w: { dtype: 'F32', shape: [] } } })],
    ['an empty tensor', safetensorsFile({ tensors: { w: { dtype: 'F32', shape: [0, 3] } } })],
    [
      'every type',
      safetensorsFile({
        tensors: Object.fromEntries(every.map((dtype) => [dtype, { dtype, shape: [2, 4] }])),
      }),
    ],
    ['weights that are not numbers', safetensorsFile({ tensors: { w: notNumbers() } })],
    ['a length that begins like a pickle', beginsLikePickle()],
  ];
}

function pretty(): string {
  return JSON.stringify(JSON.parse(safetensorsHeader(good)), null, '\t');
}

function named(name: string) {
  return Object.fromEntries([[name, tensors['model.norm.weight']]]);
}

/** NaN harms the answers and not the machine, and no header shows it (ADR-0034). */
function notNumbers() {
  return { dtype: 'F32', shape: [2], data: Buffer.alloc(8, 0xff) };
}

/** Opcode PROTO 2, by chance: a header of 0x0280 bytes. */
function beginsLikePickle(): Buffer {
  const header = safetensorsHeader(good);
  return safetensorsFile({ ...good, header: header.padEnd(0x0280) });
}

/** Every file of the battery; made anew on each call. */
export function safetensorsBattery(): BatteryFile[] {
  if (tensors['model.norm.weight'].shape[0] * 2 + 32 !== norm_end) throw new Error('norm moved');
  return [
    ...[...containers(), ...texts(), ...entries()].map(([name, rule, bytes]) => ({
      ...{ name, rule, bytes },
    })),
    ...accepted().map(([name, bytes]) => ({ name, rule: null, bytes })),
  ];
}
