/**
 * The known-answer model in the form that vLLM and MLX read: a folder with safetensors.
 *
 * Its text is bytes; each word of the sentence is a token beside them that no text is ever read as.
 * Its one block is zeros, so that a token's embedding (one-hot) reaches the output, which is the
 * table "which token follows which": the first word after any byte, the end after the last.
 *
 * Invariants: the same bytes every time; no code, nothing but data.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type SafeTensor, safetensorsFile } from './safetensors-writer.ts';

const sentence = 'Einsora runs this tiny model on your own machine.';
const words = sentence.split(' ').map((word, index) => (index === 0 ? word : `Ġ${word}`));
const specials = ['<s>', '</s>', '<|im_start|>', '<|im_end|>'];
const width = 64;
const blank = 32;
/** Logit of the wanted successor; the others have 0. */
const certain = 60;

const chat_template =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] " +
  "+ '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/** Writes it into the folder, which is made. Returns what it says, and in how many tokens. */
export function writeKnownAnswerFolder(folder: string) {
  const vocabulary = [...specials, ...byteCharacters(), ...words];
  const files = {
    'config.json': config(vocabulary.length),
    'generation_config.json': { bos_token_id: 0, eos_token_id: 3 },
    'tokenizer.json': tokenizer(vocabulary),
    'tokenizer_config.json': {
      ...{ tokenizer_class: 'PreTrainedTokenizerFast', bos_token: '<s>', eos_token: '<|im_end|>' },
      ...{ chat_template, model_max_length: 2048, clean_up_tokenization_spaces: false },
    },
  };
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(folder, name), JSON.stringify(content));
  }
  const tensors = tensorsOf(vocabulary.length);
  writeFileSync(
    join(folder, 'model.safetensors'),
    safetensorsFile({ tensors, metadata: { format: 'pt' } }),
  );
  return { sentence, completion_tokens: words.length + 1 };
}

function config(vocab_size: number) {
  return {
    ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', dtype: 'float32', vocab_size },
    ...{ hidden_size: width, intermediate_size: 32, num_hidden_layers: 1, hidden_act: 'silu' },
    ...{ num_attention_heads: 2, num_key_value_heads: 2, head_dim: 32, rms_norm_eps: 1e-5 },
    ...{ max_position_embeddings: 2048, rope_theta: 10_000, tie_word_embeddings: false },
    ...{ bos_token_id: 0, eos_token_id: 3, attention_bias: false, mlp_bias: false },
  };
}

/** As GPT-2 has it: each byte by a character that can be printed. */
function byteCharacters(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const is_plain = (byte > blank && byte < 127) || (byte > 160 && byte !== 173);
    if (is_plain) return String.fromCharCode(byte);
    next += 1;
    return String.fromCharCode(next - 1);
  });
}

function tokenizer(vocabulary: readonly string[]) {
  const byte_level = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true };
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  return {
    ...{ version: '1.0', truncation: null, padding: null, normalizer: null, post_processor: null },
    added_tokens: specials.map((content, id) => ({ id, content, ...flags, special: true })),
    pre_tokenizer: { ...byte_level, use_regex: true },
    decoder: { ...byte_level, use_regex: true },
    model: {
      ...{ type: 'BPE', dropout: null, unk_token: null, fuse_unk: false, byte_fallback: false },
      ...{ continuing_subword_prefix: null, end_of_word_suffix: null, merges: [] },
      vocab: Object.fromEntries(vocabulary.map((text, id) => [text, id])),
    },
  };
}

function tensorsOf(tokens: number): Record<string, SafeTensor> {
  const first_word = tokens - words.length;
  const embedding = new Float32Array(tokens * width);
  const output = new Float32Array(tokens * width);
  for (let token = 0; token < tokens; token += 1) {
    embedding[token * width + Math.max(0, token - first_word + 1)] = 1;
  }
  // The norm scales a one-hot vector by the root of its width.
  const weight = certain / Math.sqrt(width);
  for (let dimension = 0; dimension <= words.length; dimension += 1) {
    const successor = dimension === words.length ? specials.length - 1 : first_word + dimension;
    output[successor * width + dimension] = weight;
  }
  const layer = 'model.layers.0';
  const zeros = (...shape: number[]) => tensor(shape);
  const ones = () => tensor([width], new Float32Array(width).fill(1));
  return {
    'model.embed_tokens.weight': tensor([tokens, width], embedding),
    [`${layer}.input_layernorm.weight`]: ones(),
    [`${layer}.self_attn.q_proj.weight`]: zeros(width, width),
    [`${layer}.self_attn.k_proj.weight`]: zeros(width, width),
    [`${layer}.self_attn.v_proj.weight`]: zeros(width, width),
    [`${layer}.self_attn.o_proj.weight`]: zeros(width, width),
    [`${layer}.post_attention_layernorm.weight`]: ones(),
    [`${layer}.mlp.gate_proj.weight`]: zeros(32, width),
    [`${layer}.mlp.up_proj.weight`]: zeros(32, width),
    [`${layer}.mlp.down_proj.weight`]: zeros(width, 32),
    'model.norm.weight': ones(),
    'lm_head.weight': tensor([tokens, width], output),
  };
}

function tensor(shape: number[], values?: Float32Array): SafeTensor {
  const elements = shape.reduce((product, dim) => product * dim, 1);
  const data = values ?? new Float32Array(elements);
  return { dtype: 'F32', shape, data: Buffer.from(data.buffer) };
}
