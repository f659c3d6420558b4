"""Writes honest GGUF models with the `gguf` package, one of each kind that people publish.

Usage: write_gguf.py OUT_FOLDER TEMPLATE_FOLDER
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import quants

out, templates = Path(sys.argv[1]), Path(sys.argv[2])
random = np.random.default_rng(7)
TYPE = gguf.TokenType


def spm(words=40):
    """A vocabulary as SentencePiece makes it, with all byte tokens."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [TYPE.UNKNOWN, TYPE.CONTROL, TYPE.CONTROL] + [TYPE.BYTE] * 256
    tokens += ["\u2581", "\u2581the", "\u2581\u043c\u0438\u0440", "\u4e16\u754c", "\u00fc"] + [f"\u2581w{i}" for i in range(words)]
    kinds += [TYPE.NORMAL] * (5 + words)
    tokens += ["<|im_start|>", "<|im_end|>", "[PAD0]", "[PAD1]"]
    kinds += [TYPE.CONTROL, TYPE.USER_DEFINED, TYPE.UNUSED, TYPE.UNUSED]
    return tokens, kinds


def bpe(words=40):
    """A byte-level vocabulary with merges."""
    tokens = [chr(code) for code in range(33, 127)] + [f"\u0120t{i}" for i in range(words)] + ["<|endoftext|>", "<|im_end|>"]
    kinds = [TYPE.NORMAL] * (94 + words) + [TYPE.CONTROL] * 2
    return tokens, kinds


def add_spm(writer):
    tokens, kinds = spm()
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(index) for index in range(len(tokens))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    return len(tokens)


def add_bpe(writer, pre="qwen2"):
    tokens, kinds = bpe()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([f"{chr(97 + i % 26)} {chr(97 + (i * 7) % 26)}" for i in range(60)])
    writer.add_eos_token_id(len(tokens) - 2)
    writer.add_eot_token_id(len(tokens) - 1)
    writer.add_bos_token_id(len(tokens) - 2)
    return len(tokens)


def add_wpm(writer):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"\u2581w{i}" for i in range(60)]
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types([TYPE.CONTROL] * 5 + [TYPE.NORMAL] * 60)
    writer.add_token_type_count(2)
    for name, index in (("pad", 0), ("unk", 1), ("cls", 2), ("sep", 3), ("mask", 4)):
        getattr(writer, f"add_{name}_token_id", lambda _: None)(index)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(3)
    return len(tokens)


def add_ugm(writer):
    tokens = ["<pad>", "</s>", "<unk>"] + [f"\u2581w{i}" for i in range(60)] + ["<extra_id_0>"]
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 3 + [-float(i) for i in range(60)] + [0.0])
    writer.add_token_types([TYPE.CONTROL, TYPE.CONTROL, TYPE.UNKNOWN] + [TYPE.NORMAL] * 60 + [TYPE.USER_DEFINED])
    writer.add_precompiled_charsmap(bytes(range(200)))
    writer.add_remove_extra_whitespaces(True)
    writer.add_eos_token_id(1)
    return len(tokens)


def add_rwkv(writer):
    tokens = ["<s>"] + [f"t{i}" for i in range(90)]
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list(tokens)
    writer.add_token_types([TYPE.CONTROL] + [TYPE.NORMAL] * 90)
    return len(tokens)


def weights(*shape, kind=Q.F32):
    data = random.standard_normal(shape, dtype=np.float32)
    if kind == Q.BF16:
        return quants.quantize(data, Q.BF16)
    return quants.quantize(data, kind) if kind not in (Q.F32, Q.F16) else data.astype(np.float32 if kind == Q.F32 else np.float16)


def put(writer, name, *shape, kind=Q.F32):
    data = weights(*shape, kind=kind)
    raw = None if kind in (Q.F32, Q.F16) else kind
    writer.add_tensor(name, data, raw_dtype=raw)


def sizes(writer, blocks=2, width=64, heads=4, kv=2, inner=128, context=8192, eps=True):
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(blocks)
    if inner is not None:
        writer.add_feed_forward_length(inner)
    if heads is not None:
        writer.add_head_count(heads)
    if kv is not None:
        writer.add_head_count_kv(kv)
    if eps:
        writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def layers(writer, vocabulary, blocks=2, width=64, inner=128, kind=Q.F32, extra=()):
    put(writer, "token_embd.weight", vocabulary, width, kind=kind)
    put(writer, "output_norm.weight", width)
    for block in range(blocks):
        put(writer, f"blk.{block}.attn_norm.weight", width)
        for name, rows in (("q", width), ("k", width // 2), ("v", width // 2), ("output", width)):
            put(writer, f"blk.{block}.attn_{name}.weight", rows, width, kind=kind)
        for name, *shape in extra:
            put(writer, f"blk.{block}.{name}", *shape)
        if inner == 0:
            continue
        put(writer, f"blk.{block}.ffn_norm.weight", width)
        put(writer, f"blk.{block}.ffn_gate.weight", inner, width, kind=kind)
        put(writer, f"blk.{block}.ffn_up.weight", inner, width, kind=kind)
        put(writer, f"blk.{block}.ffn_down.weight", width, inner, kind=kind)


made = []


def model(name, arch, vocabulary=add_spm, template=None, options=None, **given):
    """Decorates a function that adds what is special about a model."""

    def decorate(special):
        writer = gguf.GGUFWriter(out / f"{name}.gguf", arch, **(options or {}))
        writer.add_type(gguf.GGUFType.MODEL)
        writer.add_name(name)
        dims = {key: given[key] for key in ("blocks", "width", "inner") if key in given and given[key] is not None}
        sizes(writer, **{key: value for key, value in given.items() if key not in ("kind", "extra")})
        count = vocabulary(writer)
        if template is not None:
            writer.add_chat_template((templates / f"{template}.jinja").read_text())
        special(writer)
        layers(writer, count, kind=given.get("kind", Q.F32), extra=given.get("extra", ()), **dims)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        made.append(name)

    return decorate


@model("llama2", "llama", template="llama2")
def _(writer):
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(308)


@model("llama3", "llama", add_bpe, "llama3-tools", context=131072)
def _(writer):
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(8.0)


@model("llama-f16", "llama", template="chatml", kind=Q.F16)
def _(writer):
    writer.add_author("A. Writer")
    writer.add_license("apache-2.0")
    writer.add_tags(["text-generation", "\u65e5\u672c\u8a9e"])
    writer.add_languages(["en", "de", "ja"])
    writer.add_base_model_count(1)
    writer.add_base_model_name(0, "Base")
    writer.add_dataset_count(1)
    writer.add_dataset_name(0, "Set")


@model("llama-bf16", "llama", template="phi4", kind=Q.BF16)
def _(writer):
    writer.add_custom_alignment(64)


@model("llama-q8", "llama", template="gemma3", kind=Q.Q8_0)
def _(writer):
    writer.add_size_label("1M")


@model("llama-q4", "llama", template="smollm3", kind=Q.Q4_0)
def _(writer):
    writer.add_sampling_temp(0.6)
    writer.add_sampling_top_k(20)


@model("llama-mixed", "llama", template="deep-schema", width=256, inner=256, kind=Q.Q5_1)
def _(writer):
    writer.add_key_length(64)
    writer.add_value_length(64)
    put(writer, "output.weight", 308, 256, kind=Q.Q8_0)


@model("mistral", "llama", template="mistral-tools")
def _(writer):
    writer.add_sliding_window(4096)
    writer.add_vocab_size(308)


@model("mixtral", "llama", template="llama2", extra=[("ffn_gate_inp.weight", 8, 64), ("ffn_up_exps.weight", 8, 128, 64)])
def _(writer):
    writer.add_expert_count(8)
    writer.add_expert_used_count(2)


@model("qwen2", "qwen2", add_bpe, "chatml", extra=[("attn_q.bias", 64), ("attn_k.bias", 32), ("attn_v.bias", 32)])
def _(writer):
    writer.add_rope_freq_base(1000000.0)


@model("qwen3", "qwen3", add_bpe, "qwen3", extra=[("attn_q_norm.weight", 32), ("attn_k_norm.weight", 32)])
def _(writer):
    writer.add_key_length(32)
    writer.add_value_length(32)


@model("qwen3moe", "qwen3moe", add_bpe, "qwen3", inner=32, extra=[("ffn_gate_inp.weight", 128, 64)])
def _(writer):
    writer.add_expert_count(128)
    writer.add_expert_used_count(8)
    writer.add_expert_feed_forward_length(32)


@model("deepseek", "deepseek2", lambda writer: add_bpe(writer, "deepseek-v3"), "deepseek-r1", heads=4, kv=1, context=163840)
def _(writer):
    writer.add_leading_dense_block_count(1)
    writer.add_kv_lora_rank(32)
    writer.add_q_lora_rank(48)
    writer.add_key_length(48)
    writer.add_value_length(32)
    writer.add_key_length_mla(24)
    writer.add_value_length_mla(16)
    writer.add_expert_feed_forward_length(32)
    writer.add_expert_count(64)
    writer.add_expert_used_count(6)
    writer.add_expert_shared_count(2)
    writer.add_expert_group_count(8)
    writer.add_expert_group_used_count(4)
    writer.add_expert_weights_scale(2.5)
    writer.add_expert_weights_norm(True)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_rope_dimension_count(8)
    writer.add_rope_scaling_yarn_log_mul(0.1)


@model("gpt-oss", "gpt-oss", lambda writer: add_bpe(writer, "gpt-4o"), "harmony", extra=[("attn_sinks.weight", 4)])
def _(writer):
    writer.add_sliding_window(128)
    writer.add_expert_count(32)
    writer.add_expert_used_count(4)
    writer.add_expert_feed_forward_length(64)
    writer.add_key_length(64)
    writer.add_value_length(64)
    blocks = random.integers(0, 255, (4, 64, 2 * 17), dtype=np.uint8)
    writer.add_tensor("blk.0.ffn_gate_exps.weight", blocks, raw_dtype=Q.MXFP4)


@model("gemma2", "gemma2", template="gemma3", heads=8, kv=4)
def _(writer):
    writer.add_key_length(32)
    writer.add_value_length(32)
    writer.add_attn_logit_softcapping(50.0)
    writer.add_final_logit_softcapping(30.0)
    writer.add_sliding_window(4096)


@model("gemma3", "gemma3", template="gemma3", kv=1, context=32768)
def _(writer):
    writer.add_key_length(32)
    writer.add_value_length(32)
    writer.add_sliding_window(512)
    writer.add_sliding_window_pattern([True, False])


@model("phi3", "phi3", template="phi4", kv=4)
def _(writer):
    writer.add_rope_dimension_count(16)
    writer.add_rope_scaling_attn_factors(1.19)
    writer.add_rope_scaling_orig_ctx_len(4096)


@model("command-r", "command-r", lambda writer: add_bpe(writer, "command-r"), "command-r", eps=False)
def _(writer):
    writer.add_layer_norm_eps(1e-5)
    writer.add_logit_scale(0.0625)
    writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)


@model("openelm", "openelm", inner=None, heads=None, kv=None)
def _(writer):
    writer.add_head_count([4, 8])
    writer.add_head_count_kv([1, 2])
    writer.add_feed_forward_length([128, 192])
    writer.add_key_length(16)
    writer.add_value_length(16)


@model("jamba", "jamba", heads=None, kv=None, context=262144)
def _(writer):
    writer.add_head_count([0, 4])
    writer.add_head_count_kv([0, 2])
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(128)
    writer.add_ssm_state_size(16)
    writer.add_ssm_time_step_rank(4)
    writer.add_expert_count(4)
    writer.add_expert_used_count(2)


@model("mamba", "mamba", lambda writer: add_bpe(writer, "gpt-2"), heads=0, kv=None, inner=0, context=1048576)
def _(writer):
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(128)
    writer.add_ssm_state_size(16)
    writer.add_ssm_time_step_rank(4)
    writer.add_ssm_dt_b_c_rms(False)
    put(writer, "blk.0.ssm_a", 128, 16)
    put(writer, "blk.0.ssm_conv1d.weight", 128, 4)


@model("rwkv6", "rwkv6", add_rwkv, heads=0, kv=None, eps=False, context=1048576)
def _(writer):
    writer.add_layer_norm_eps(1e-5)
    writer.add_rescale_every_n_layers(6)
    writer.add_wkv_head_size(64)
    writer.add_time_mix_extra_dim(32)
    writer.add_time_decay_extra_dim(64)


@model("bert", "bert", add_wpm, eps=False, kv=None, context=512)
def _(writer):
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)


@model("t5", "t5", add_ugm, kv=None, context=512)
def _(writer):
    writer.add_key_length(16)
    writer.add_value_length(16)
    writer.add_relative_attn_buckets_count(32)
    writer.add_decoder_start_token_id(0)


@model("granite", "granite", lambda writer: add_bpe(writer, "refact"), "llama3-tools")
def _(writer):
    writer.add_embedding_scale(12.0)
    writer.add_residual_scale(0.22)
    writer.add_attention_scale(0.015625)
    writer.add_logit_scale(8.0)


@model("named-templates", "llama", add_bpe)
def _(writer):
    read = lambda name: (templates / f"{name}.jinja").read_text()
    writer.add_chat_template([
        {"name": "default", "template": read("command-r")},
        {"name": "tool_use", "template": read("llama3-tools")},
    ])


@model("split", "llama", template="chatml", options={"split_max_tensors": 7})
def _(writer):
    writer.add_rope_freq_base(10000.0)


@model("split-small-first", "llama", template="chatml", options={"split_max_tensors": 7, "small_first_shard": True})
def _(writer):
    writer.add_rope_freq_base(10000.0)


print(len(made))
