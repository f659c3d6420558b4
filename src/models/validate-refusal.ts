/**
 * The rules of all validators: an id that never changes and the sentence a person reads.
 *
 * Invariants: a file that is refused breaks exactly the rule named; `Refusal` never leaves the
 * validators (it ends the walk, and becomes a value at their edge).
 */
export const model_rules = {
  missing: 'There is no such file.',
  not_a_file: 'This is not a regular file.',
  unreadable: 'The file cannot be read.',
  changed: 'The file changed while it was read.',
  unknown_format: 'This is neither a GGUF nor a safetensors file.',
  polyglot_zip: 'The file is at the same time a ZIP archive; PyTorch would run code from it.',
  polyglot_pickle: 'The file is at the same time a Python pickle; loading it so would run code.',
  big_endian: 'This is a big-endian GGUF file; the engines here read little-endian ones.',
  version: 'Only GGUF versions 2 and 3 can be loaded.',
  truncated: 'The file ends before its header does.',
  header_size: 'The header is larger than any real model needs.',
  entry_count: 'The number of metadata entries is out of bounds.',
  tensor_count: 'The number of tensors is out of bounds.',
  key: 'A metadata key is empty, too long or not plain text.',
  duplicate_key: 'A metadata key occurs twice.',
  value_type: 'A metadata value has an unknown type.',
  bool_value: 'A true-or-false value is neither.',
  string_size: 'A string is longer than its place allows.',
  utf8: 'Text in the header is not valid UTF-8.',
  array_type: 'An array has an unknown element type or an array inside.',
  array_size: 'An array is longer than its place allows.',
  float_value: 'A setting is not a finite number.',
  alignment: 'The alignment is not a power of two within bounds.',
  tensor_name: 'A tensor has no name, one too long or one that is not plain text.',
  duplicate_tensor: 'A tensor name occurs twice.',
  tensor_dims: 'A tensor has no dimensions, too many or an empty one.',
  tensor_size: "A tensor's size overflows.",
  tensor_type: 'A tensor has a type that no engine knows.',
  weight_type: 'A weight has a type that engines do not compute with; the engine would crash.',
  tensor_row: 'A row of a tensor does not fill whole blocks of its type.',
  tensor_offset: 'A tensor does not lie where it must: right after the one before.',
  file_too_short: 'The file ends before its last tensor does.',
  file_too_long: 'Something follows the last tensor; a model file ends with it.',
  padding: 'The space between the parts of the file is not empty.',
  not_a_language_model: 'This GGUF file is no language model by itself.',
  required_key: 'A setting that every model has is missing.',
  key_type: 'A setting has the wrong type.',
  architecture: 'The name of the architecture is not a name.',
  block_count: 'The number of blocks is out of bounds; the engine would crash.',
  context_length: 'The context length is out of bounds.',
  setting_bounds: 'A setting is out of bounds.',
  head_count: 'The attention heads do not fit each other or the embedding.',
  expert_count: 'The numbers of experts do not fit each other; the engine would crash.',
  epsilon: 'The norm epsilon is not a small positive number; the engine would crash.',
  rope_scaling: 'The kind of rope scaling is unknown; the engine would crash.',
  layer_array: 'A per-layer setting has too few values.',
  vocabulary: 'The vocabulary is missing, empty or too large.',
  token_size: 'A token is longer than any real one.',
  token_arrays: 'The arrays of the vocabulary do not have the same length.',
  token_array_type: 'An array of the vocabulary has the wrong element type.',
  duplicate_token: 'A token occurs twice in the vocabulary; the engine would crash.',
  token_score: 'A token score is not a number.',
  token_kind: 'A token has an unknown kind.',
  byte_token: 'A byte token does not name a byte; the engine would write out of bounds.',
  byte_kind:
    'A token is of the kind of bytes, which this vocabulary lacks; the engine would crash.',
  byte_tokens: 'The vocabulary lacks byte tokens, so that ordinary text cannot be read.',
  token_id: 'A special token lies outside the vocabulary.',
  embedding_shape: 'The token embedding does not fit the vocabulary and embedding length.',
  shard: 'The numbers of this part of a split model are out of bounds.',
  shard_name: 'The parts of a split model must be named as the engine looks for them.',
  shard_order: 'This is a later part of a split model; give its first part.',
  shard_missing: 'A part of the split model is missing.',
  shard_mismatch: 'The parts of the split model do not belong together.',
  template_size: 'The chat template is longer than any real one.',
  template_nesting: 'The chat template nests too deep; the engine would crash.',
  template_recursion: 'A macro of the chat template always calls itself; the engine would crash.',
  template_tag: 'A tag of the chat template is not closed or far too long.',
  template_number: 'The chat template holds a number that could only serve to exhaust the engine.',
  template_range: 'The chat template loops too often; the engine would never be ready.',
  template_repeat: 'The chat template multiplies text; the engine would run out of memory.',
  json_syntax: 'The text is not JSON of the form that it must have.',
  json_duplicate: 'A name occurs twice in one object; readers differ in which one they take.',
  json_number: 'A number is not a whole one from 0 to 2^53 - 1.',
  json_string: 'A string is longer than its place allows.',
  json_depth: 'The JSON nests deeper than any real one.',
  json_size: 'The JSON is larger than any real one.',
  header_entry: 'An entry of the header does not have the form of a tensor.',
  header_metadata: 'The metadata of the header is not a list of names with a text each.',
  tensor_extent: "A tensor's place does not have the size of its type and shape.",
  tensor_bits: 'A tensor of numbers smaller than a byte does not fill whole bytes.',
  index: 'The index of the parts does not have the form of one.',
  index_name: 'The index names a file outside the folder of the model.',
  index_tensor: 'The index and the parts do not hold the same tensors.',
  remote_code: 'The settings of the model ask for code of its own to be run.',
  beside_file: 'A file beside the model is code, or a format that can hold code.',
  folder_size: 'The folder holds more files than any real model.',
  no_weights: 'The folder holds no safetensors file.',
} as const;

export type ModelRule = keyof typeof model_rules;

const unreadable: ReadonlySet<ModelRule> = new Set([
  'missing',
  'not_a_file',
  'unreadable',
  'changed',
]);

export class Refusal extends Error {
  readonly rule: ModelRule;

  /** `detail` is a sentence of its own: which key or tensor, what was found. */
  constructor(rule: ModelRule, detail = '') {
    super(detail === '' ? model_rules[rule] : `${model_rules[rule]} ${detail}`);
    this.rule = rule;
  }

  get code(): 'model_file_invalid' | 'model_file_unreadable' {
    return unreadable.has(this.rule) ? 'model_file_unreadable' : 'model_file_invalid';
  }
}

/** Ends the walk unless `holds`. */
export function must(holds: boolean, rule: ModelRule, detail?: () => string): asserts holds {
  if (!holds) throw new Refusal(rule, detail?.());
}

/** Names are shown and compared; control characters could make two look alike, or cut one. */
export function isPlain(text: string): boolean {
  return text !== '' && !/\p{Cc}/u.test(text);
}
