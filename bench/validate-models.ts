/**
 * The large models of the bench `validate`: headers like those that are published, and how many
 * bytes of weights follow.
 */
import {
  entry,
  type GgufFile,
  type GgufTensor,
  ggufDataBytes,
  ggufHeader,
} from '../test/lib/gguf-writer.ts';
import {
  type SafeTensor,
  safetensorsFile,
  safetensorsHeader,
  tensorBytes,
} from '../test/lib/safetensors-writer.ts';

export type LargeModel = { header: Buffer; data_bytes: number };

export function largeGguf(): LargeModel {
  const file = ggufModel();
  return { header: ggufHeader(file), data_bytes: ggufDataBytes(file) };
}

/** 5 billion parameters in one file, as BF16. */
export function largeSafetensors(): LargeModel {
  const [blocks, width, inner, count] = [32, 4096, 6656, 150_000];
  const tensors: Record<string, SafeTensor> = {
    'model.embed_tokens.weight': bf16(count, width),
    'model.norm.weight': bf16(width),
    'lm_head.weight': bf16(count, width),
  };
  for (let block = 0; block < blocks; block += 1) {
    const put = (name: string, ...shape: number[]) => {
      tensors[`model.layers.${block}.${name}.weight`] = bf16(...shape);
    };
    put('input_layernorm', width);
    put('self_attn.q_proj', width, width);
    put('self_attn.k_proj', width / 4, width);
    put('self_attn.v_proj', width / 4, width);
    put('self_attn.o_proj', width, width);
    put('post_attention_layernorm', width);
    put('mlp.gate_proj', inner, width);
    put('mlp.up_proj', inner, width);
    put('mlp.down_proj', width, inner);
  }
  const header = safetensorsHeader({ tensors, metadata: { format: 'pt' } });
  const padded = header.padEnd(Math.ceil(header.length / 8) * 8);
  const data_bytes = Object.values(tensors).reduce((sum, one) => sum + tensorBytes(one), 0);
  return { header: safetensorsFile({ header: padded }), data_bytes };
}

function bf16(...shape: number[]): SafeTensor {
  return { dtype: 'BF16', shape };
}

/** A header like that of a model of 5 billion parameters: 291 tensors, 150,000 tokens, merges. */
function ggufModel(): GgufFile {
  const [blocks, width, inner, count] = [32, 4096, 6656, 150_000];
  const half = (name: string, ...dims: number[]): GgufTensor => ({
    name: `${name}.weight`,
    dims,
    type: 1,
    bytes: 2 * dims.reduce((product, dim) => product * dim, 1),
  });
  const tensors = Array.from({ length: blocks }, (_, block) => [
    half(`blk.${block}.attn_norm`, width),
    half(`blk.${block}.attn_q`, width, width),
    half(`blk.${block}.attn_k`, width, width / 4),
    half(`blk.${block}.attn_v`, width, width / 4),
    half(`blk.${block}.attn_output`, width, width),
    half(`blk.${block}.ffn_norm`, width),
    half(`blk.${block}.ffn_gate`, width, inner),
    half(`blk.${block}.ffn_up`, width, inner),
    half(`blk.${block}.ffn_down`, inner, width),
  ]).flat();
  const token = (index: number) => `Ġ${index.toString(36).padStart(2 + (index % 9), '_')}`;
  const indices = Array.from({ length: count }, (_, index) => index);
  return {
    entries: [
      entry.string('general.architecture', 'llama'),
      entry.u32('llama.block_count', blocks),
      entry.u32('llama.context_length', 131_072),
      entry.u32('llama.embedding_length', width),
      entry.u32('llama.feed_forward_length', inner),
      entry.u32('llama.attention.head_count', 32),
      entry.u32('llama.attention.head_count_kv', 8),
      entry.f32('llama.attention.layer_norm_rms_epsilon', 1e-5),
      entry.string('tokenizer.ggml.model', 'gpt2'),
      entry.strings('tokenizer.ggml.tokens', indices.map(token)),
      entry.i32s(
        'tokenizer.ggml.token_type',
        indices.map(() => 1),
      ),
      entry.strings(
        'tokenizer.ggml.merges',
        indices.map((index) => `${token(index)} e`),
      ),
      entry.u32('tokenizer.ggml.eos_token_id', 2),
      entry.string('tokenizer.chat_template', "{{ messages[0]['content'] }}"),
    ],
    tensors: [
      half('token_embd', width, count),
      ...tensors,
      half('output_norm', width),
      half('output', width, count),
    ],
  };
}
