"""Writes honest safetensors models with the `safetensors` package, one of each kind that people
publish: files, and folders with an index and settings.

Usage: write_safetensors.py OUT_FOLDER TEMPLATE_FOLDER
"""
import json
import sys
from pathlib import Path

import numpy as np
from safetensors import TensorSpec, serialize_file
from safetensors.numpy import save, save_file

out, templates = Path(sys.argv[1]), Path(sys.argv[2])
random = np.random.default_rng(11)
made = 0


def f32(*shape):
    return random.standard_normal(shape, dtype=np.float32)


def llama(blocks=2, width=32, kind=np.float32):
    tensors = {"model.embed_tokens.weight": f32(100, width), "model.norm.weight": f32(width), "lm_head.weight": f32(100, width)}
    for block in range(blocks):
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj"):
            tensors[f"model.layers.{block}.{name}.weight"] = f32(width, width)
        tensors[f"model.layers.{block}.input_layernorm.weight"] = f32(width)
    return {name: data.astype(kind) for name, data in tensors.items()}


def plain(name, tensors, metadata=None):
    global made
    save_file(tensors, out / f"{name}.safetensors", metadata=metadata)
    made += 1


def raw(name, tensors, metadata=None):
    """Types that numpy does not have: name, shape and bytes as they are."""
    global made
    data = {key: np.zeros(size, dtype=np.uint8) for key, (_, _, size) in tensors.items()}
    parts = {
        key: TensorSpec(dtype=kind, shape=list(shape), data_ptr=data[key].ctypes.data, data_len=size)
        for key, (kind, shape, size) in tensors.items()
    }
    serialize_file(parts, str(out / f"{name}.safetensors"), metadata)
    made += 1


plain("f32", llama(), {"format": "pt"})
plain("f16", llama(kind=np.float16), {"format": "pt"})
plain("f64", llama(kind=np.float64))
plain("no-metadata", {"w": f32(3, 5)})
plain("one-scalar", {"scale": np.array(0.5, dtype=np.float32)}, {"format": "np"})
plain("empty-tensor", {"empty": f32(0, 4), "w": f32(2)})
plain("odd-sizes", {f"w{index}": np.zeros(index, dtype=np.uint8) for index in range(1, 40)})
plain("many", {f"model.layers.{index}.weight": np.zeros(2, dtype=np.float16) for index in range(5000)})
plain("five-dims", {"conv.weight": f32(2, 3, 1, 2, 2), "conv.bias": f32(2)})
plain("integers", {kind: np.arange(12, dtype=kind).reshape(3, 4) for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")})
plain("bools", {"mask": np.ones((4, 4), dtype=bool)})
plain("complex", {"freqs": np.ones((4, 4), dtype=np.complex64)})
plain("names", {"\u5c42.0.weight": f32(2), "a b/c:d\"e\\f": f32(2), "x" * 300: f32(2), "__proto__": f32(1), "constructor": f32(1)})
plain("mlx-4bit", {"q.weight": np.zeros((32, 8), dtype=np.uint32), "q.scales": np.zeros((32, 1), dtype=np.float16), "q.biases": np.zeros((32, 1), dtype=np.float16)}, {"format": "mlx"})
plain("gptq", {"q.qweight": np.zeros((4, 32), dtype=np.int32), "q.qzeros": np.zeros((1, 4), dtype=np.int32), "q.scales": np.zeros((1, 32), dtype=np.float16), "q.g_idx": np.zeros(32, dtype=np.int32)})
plain("lora", {"base.q_proj.lora_A.weight": f32(8, 32), "base.q_proj.lora_B.weight": f32(32, 8), "base.q_proj.alpha": np.array(16.0, dtype=np.float32)}, {"ss_tag_frequency": json.dumps({f"tag \u00fc{index}": index for index in range(20000)}), "note": "line\nline\t\"quoted\" \\ \U0001f600"})
plain("thumbnail", {"w": f32(2)}, {"modelspec.thumbnail": "data:image/jpeg;base64," + "QUJD" * 300000})
raw("bf16", {"w": ("bfloat16", (4, 4), 32), "n": ("float32", (4,), 16)}, {"format": "pt"})
raw("fp8", {"w": ("float8_e4m3fn", (4, 4), 16), "v": ("float8_e5m2", (4, 4), 16), "s": ("float32", (1,), 4)})
raw("fp8-scales", {"w": ("float8_e8m0fnu", (16,), 16)})
(out / "bytes.safetensors").write_bytes(save({"w": f32(7, 3)}))
made += 1


def folder(name, parts, config, *, index=True, tokenizer=None, jinja=None):
    global made
    path = out / name
    path.mkdir()
    mapped = {}
    for number, tensors in enumerate(parts):
        file = f"model-{number + 1:05}-of-{len(parts):05}.safetensors" if len(parts) > 1 else "model.safetensors"
        save_file(tensors, path / file, metadata={"format": "pt"})
        mapped.update({tensor: file for tensor in tensors})
    if index:
        total = sum(data.nbytes for tensors in parts for data in tensors.values())
        (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": mapped}, indent=2))
    (path / "config.json").write_text(json.dumps(config, indent=2))
    (path / "generation_config.json").write_text(json.dumps({"do_sample": True, "temperature": 0.6, "eos_token_id": [1, 2]}))
    (path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}))
    (path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 1000000000000000019884624838656, "tokenizer_class": "PreTrainedTokenizerFast", **(tokenizer or {})}))
    if jinja is not None:
        (path / "chat_template.jinja").write_text((templates / f"{jinja}.jinja").read_text())
    for file in ("README.md", ".gitattributes", "LICENSE.txt", "merges.txt", "special_tokens_map.json"):
        (path / file).write_text("{}")
    made += 1


def halves(tensors):
    names = sorted(tensors)
    return [{name: tensors[name] for name in part} for part in (names[::2], names[1::2])]


def template(name):
    return (templates / f"{name}.jinja").read_text()


base = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "torch_dtype": "bfloat16", "tie_word_embeddings": False}
folder("llama-folder", [llama()], base, index=False, tokenizer={"chat_template": template("llama3-tools")})
folder("llama-parts", halves(llama()), base, tokenizer={"chat_template": template("llama2")})
folder("qwen-parts", halves(llama(3)), {**base, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "sliding_window": None}, jinja="qwen3")
folder("gpt-oss", [llama()], {**base, "model_type": "gpt_oss", "layer_types": ["sliding_attention", "full_attention"] * 12, "rope_scaling": {"beta_fast": 32.0, "factor": 32.0, "truncate": False}}, index=False, jinja="harmony")
folder("gemma-vision", halves(llama()), {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"max_position_embeddings": 131072, "hidden_size": 2560}, "vision_config": {"image_size": 896}, "mm_tokens_per_image": 256}, tokenizer={"chat_template": template("gemma3")})
folder("named-templates", [llama()], base, index=False, tokenizer={"chat_template": [{"name": "default", "template": template("command-r")}, {"name": "tool_use", "template": template("mistral-tools")}]})
folder("mlx-folder", [llama(kind=np.float16)], {**base, "quantization": {"group_size": 64, "bits": 4}, "auto_map": {}}, index=False, jinja="deepseek-r1")
print(made)
