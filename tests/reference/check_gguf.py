"""GGUF files of `convert --gguf` against the same models' Hugging Face folders, read by ggml's own package.

    python check_gguf.py CONVERT MODEL...

CONVERT is the program build/apps/convert; a MODEL is anything that it reads. Each is written as float32, bfloat16 and
float16, and every tensor is compared bit by bit with that of a Hugging Face folder: under the name that gguf's own
table has for it, rows of llama's queries and keys and of gpt_neox's projections brought back into the folder's order.
Vectors and learned positions stay float32. The fields are compared with config.json, the tokens with tokenizer.json.
Needs gguf, numpy and safetensors; ends with 77 where they are missing.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy
    import safetensors
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TYPES = {"float32": gguf.GGMLQuantizationType.F32, "bfloat16": gguf.GGMLQuantizationType.BF16,
         "float16": gguf.GGMLQuantizationType.F16}
FILE_TYPES = {"float32": 0, "float16": 1, "bfloat16": 32}
ARCHITECTURES = {"mpt": "mpt", "parallel_mpt": "mpt", "llama": "llama", "mistral": "llama", "qwen2": "qwen2",
                 "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "qwen3": "qwen3", "gpt2": "gpt2", "gpt_neox": "gptneox", "gemma3_text": "gemma3"} | {
                     name: name for name in ("starcoder2", "stablelm", "olmo2", "phi3", "smollm3", "granite", "gemma", "gemma2",
                                             "glm4", "olmoe", "dbrx")}


def convert(program, source, target, *options):
    done = subprocess.run([program, source, target, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bits(array):
    """The bits of a float array as whole numbers."""
    return array.view({2: numpy.uint16, 4: numpy.uint32}[array.dtype.itemsize])


def rounded(values, dtype):
    """The bits of float32 values in another type, rounded to the nearest, ties to even."""
    if dtype == "float32":
        return bits(values)
    if dtype == "float16":
        return bits(values.astype(numpy.float16))
    wide = bits(values).astype(numpy.uint64)
    return ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(numpy.uint16)


def folder_tensors(folder):
    out = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safetensors.safe_open(file, "numpy") as opened:
            out |= {name: opened.get_tensor(name) for name in opened.keys()}
    return out


def fused(tensors):
    """MPT's projections as one tensor where a folder has three."""
    out = {}
    for name, tensor in tensors.items():
        if ".attn.Wk." in name or ".attn.Wv." in name:
            continue
        if ".attn.Wq." in name:
            tensor = numpy.concatenate([tensors[name.replace(".Wq.", f".{part}.")] for part in ("Wq", "Wk", "Wv")])
            name = name.replace(".Wq.", ".Wqkv.")
        out[name] = tensor
    return out


def stacked(tensors, config):
    """One tensor for the matrices of all experts, with a row of the output in each of their rows."""
    out = {}
    for name, tensor in tensors.items():
        if ".experts.mlp." in name:  # DBRX
            tensor = tensor.reshape(config["ffn_config"]["moe_num_experts"], -1, tensor.shape[-1])
            out[name + ".weight"] = tensor.swapaxes(1, 2) if name.endswith(".w2") else tensor
        elif ".shared_expert_gate." in name:
            out[name] = tensor.reshape(-1)
        elif match := re.fullmatch(r"(.*\.experts\.)(\d+)\.(.*)\.weight", name):
            out.setdefault(f"{match[1]}{match[3]}.weight", {})[int(match[2])] = tensor
        else:
            out[name] = tensor
    return {name: numpy.stack([value[e] for e in range(len(value))]) if isinstance(value, dict) else value
            for name, value in out.items()}


def in_file_order(name, tensor, config):
    """A tensor of a folder as llama.cpp expects its elements."""
    kind = config["model_type"]
    if kind.startswith("gemma") and name.endswith("norm.weight"):
        return tensor + numpy.float32(1)
    if kind in ("llama", "mistral", "mixtral", "smollm3", "granite") and (".q_proj." in name or ".k_proj." in name):
        heads = config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"]
        halves = tensor.reshape(heads, 2, -1, *tensor.shape[1:])  # of each head
        return halves.swapaxes(1, 2).reshape(tensor.shape)
    if kind == "gpt_neox" and ".query_key_value." in name:
        groups = tensor.reshape(config["num_attention_heads"], 3, -1, *tensor.shape[1:])
        return groups.swapaxes(0, 1).reshape(tensor.shape)
    if kind == "gpt2" and tensor.ndim == 2 and ".h." in name:
        return tensor.T
    return tensor


def check_tensors(reader, folder, config, dtype):
    architecture = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[ARCHITECTURES[config["model_type"]]]
    blocks = next(config[key] for key in ("n_layers", "num_hidden_layers", "n_layer") if key in config)
    names = gguf.get_tensor_name_map(architecture, blocks)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    factors = stored.pop("rope_freqs.weight", None)
    tensors = stacked(fused(folder_tensors(folder)), config)
    for name, tensor in tensors.items():
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found in stored, f"{name} is {found} to gguf, and is not in the file"
        held = stored.pop(found)
        expected = numpy.ascontiguousarray(in_file_order(name, tensor, config))
        is_wide = expected.ndim == 1 or found.startswith("position_embd") or ".ffn_gate_inp." in found
        kind = "float32" if is_wide else dtype
        assert held.tensor_type == TYPES[kind], f"{found} is {held.tensor_type.name}"
        assert tuple(reversed([int(n) for n in held.shape])) == expected.shape, f"{found}: {held.shape}"
        held_bits = numpy.frombuffer(held.data.tobytes(), numpy.uint32 if kind == "float32" else numpy.uint16)
        assert numpy.array_equal(held_bits, rounded(expected, kind).reshape(-1)), f"{found}: values"
    for kind in ("long", "short"):
        if f"rope_factors_{kind}.weight" in stored:
            held = numpy.frombuffer(stored.pop(f"rope_factors_{kind}.weight").data.tobytes(), numpy.float32)
            assert numpy.allclose(held, config["rope_scaling"][f"{kind}_factor"])
    if "output.weight" in stored and config["model_type"] in ("gpt_neox", "stablelm", "olmo2", "olmoe", "qwen2_moe"):  # tied, but needed there
        assert stored.pop("output.weight").data.tobytes() == \
            next(t for t in reader.tensors if t.name == "token_embd.weight").data.tobytes()
    assert not stored, f"the file has more tensors: {list(stored)}"
    return len(tensors), factors


def check_fields(reader, config, dtype):
    field = {name: value.contents() for name, value in reader.fields.items()}
    architecture = ARCHITECTURES[config["model_type"]]
    assert field["general.architecture"] == architecture and field["general.file_type"] == FILE_TYPES[dtype]
    for name, keys in {"context_length": ("max_seq_len", "max_position_embeddings", "n_positions"),
                       "embedding_length": ("d_model", "hidden_size", "n_embd"),
                       "block_count": ("n_layers", "num_hidden_layers", "n_layer"),
                       "attention.head_count": ("n_heads", "num_attention_heads", "n_head"),
                       "vocab_size": ("vocab_size",)}.items():
        value = next(config[key] for key in keys if key in config)
        assert field[f"{architecture}.{name}"] == value, name
    if "rms_norm_eps" in config:
        assert numpy.isclose(field[f"{architecture}.attention.layer_norm_rms_epsilon"], config["rms_norm_eps"])
    if "num_key_value_heads" in config:
        assert field[f"{architecture}.attention.head_count_kv"] == config["num_key_value_heads"]
    experts = config.get("ffn_config", config)
    for name, keys in {"expert_count": ("num_experts", "num_local_experts", "moe_num_experts"),
                       "expert_used_count": ("num_experts_per_tok", "moe_top_k"),
                       "expert_feed_forward_length": ("moe_intermediate_size",),
                       "expert_shared_feed_forward_length": ("shared_expert_intermediate_size",)}.items():
        value = next((experts[key] for key in keys if key in experts), None)
        assert value is None or field[f"{architecture}.{name}"] == value, name
    if architecture == "mpt":
        attention = config["attn_config"]
        bias = attention.get("alibi_bias_max", 8) if attention.get("alibi", True) else 0
        assert field["mpt.attention.max_alibi_bias"] == bias
        clip = attention.get("clip_qkv")
        assert numpy.isclose(field["mpt.attention.clamp_kqv"], clip) if clip else \
            "mpt.attention.clamp_kqv" not in field
    return field


def check_tokens(field, folder):
    if not (folder / "tokenizer.json").exists():
        assert field["tokenizer.ggml.model"] == "no_vocab"
        return 0
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    rows = tokenizer["model"]["vocab"] | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    tokens = field["tokenizer.ggml.tokens"]
    special = {token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    for text, id in rows.items():
        assert tokens[id] == text, (id, text, tokens[id])
        if id in special:
            assert field["tokenizer.ggml.token_type"][id] == gguf.TokenType.CONTROL
    assert len(set(tokens)) == len(tokens) == len(field["tokenizer.ggml.token_type"])
    merges = [line if isinstance(line, str) else " ".join(line) for line in tokenizer["model"]["merges"]]
    if field["tokenizer.ggml.model"] == "gpt2":
        assert field["tokenizer.ggml.merges"] == merges
    return len(tokens)


def check(program, source, work):
    folder = pathlib.Path(source)
    if not (folder / "config.json").exists():
        folder = work / "folder"
        convert(program, source, folder, "--dtype", "float32")
    config = json.loads((folder / "config.json").read_text())
    for dtype in TYPES:
        file = work / f"{dtype}.gguf"
        convert(program, source, file, "--gguf", "--dtype", dtype)
        reader = gguf.GGUFReader(file)
        count, _ = check_tensors(reader, folder, config, dtype)
        tokens = check_tokens(check_fields(reader, config, dtype), folder)
    print(f"{source}: {count} tensors in {len(TYPES)} types, {tokens} tokens: equal")


if __name__ == "__main__":
    for model in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as temporary:
            check(sys.argv[1], model, pathlib.Path(temporary))
