"""Makes the committed golden numbers in ../golden/families: tiny models of each family by transformers' own classes.

Each file holds the config.json that transformers writes, its tensors under its names, and logits, loss and gradients of
the mean loss in fp64. transformers computes norms and angles in fp32 whatever the type of the model; the fp64 run puts
fp64 in fp32's place. Parameters are exactly representable in bf16.

    python make_family_golden.py [--out ../golden/families] [--only NAME]
"""

import argparse
import contextlib
import importlib.metadata
import json
import math
import pathlib

import torch
import transformers

from golden_file import save

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

VERSIONS = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "safetensors")}
IGNORED = -100

LLAMA = {"vocab_size": 29, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
         "max_position_embeddings": 64, "initializer_range": 0.05}
EXPERTS = LLAMA | {"num_key_value_heads": 2, "moe_intermediate_size": 12, "num_experts": 4, "num_experts_per_tok": 2}
DBRX = {"vocab_size": 29, "d_model": 16, "n_layers": 2, "n_heads": 4, "max_seq_len": 64, "initializer_range": 0.05}
GPT2 = {"vocab_size": 29, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 24, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0}

PHI3 = LLAMA | {"pad_token_id": None}


def rope(kind, **settings):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0} | settings}


def longrope(width, **settings):
    factors = [[1.0 + 0.25 * i for i in range(width // 2)], [2.0 + 1.5 * i for i in range(width // 2)]]
    return rope("longrope", short_factor=factors[0], long_factor=factors[1], **settings)


CASES = {
    "llama_grouped": ("llama", LLAMA | {"num_key_value_heads": 2} | rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
    "llama_wide_heads": ("llama", LLAMA | {"num_key_value_heads": 1, "head_dim": 10, "tie_word_embeddings": True,
                                           "rms_norm_eps": 1e-5} | rope("linear", factor=2.0)),
    "llama_biases": ("llama", LLAMA | {"attention_bias": True} | rope(
        "yarn", factor=4.0, original_max_position_embeddings=16)),
    "mistral_window": ("mistral", LLAMA | {"num_key_value_heads": 2, "sliding_window": 5}),
    "mistral_narrow_heads": ("mistral", LLAMA | {"num_key_value_heads": 4, "head_dim": 2, "sliding_window": None}),
    "mistral_theta": ("mistral", LLAMA | {"num_key_value_heads": 1, "sliding_window": None, "tie_word_embeddings": True}
                      | rope("default", rope_theta=1000000.0)),
    "qwen2_tied": ("qwen2", LLAMA | {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "qwen2_yarn": ("qwen2", LLAMA | {"num_key_value_heads": 4} | rope(
        "yarn", factor=2.0, original_max_position_embeddings=8, beta_fast=8.0, beta_slow=0.5, truncate=False)),
    "qwen2_window": ("qwen2", LLAMA | {"num_key_value_heads": 1, "use_sliding_window": True, "sliding_window": 4,
                                       "max_window_layers": 0}),
    "qwen3_tied": ("qwen3", LLAMA | {"num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": True}),
    "qwen3_biases": ("qwen3", LLAMA | {"num_key_value_heads": 1, "head_dim": 6, "attention_bias": True}),
    "qwen3_plain": ("qwen3", LLAMA | {"num_key_value_heads": 4, "head_dim": 4, "rms_norm_eps": 1e-5}),
    "gpt_neox_parallel": ("gpt_neox", LLAMA | rope("default", partial_rotary_factor=0.5)),
    "gpt_neox_sequential": ("gpt_neox", LLAMA | {"use_parallel_residual": False, "hidden_act": "gelu_new"} | rope(
        "default", partial_rotary_factor=1.0)),
    "gpt_neox_few_biases": ("gpt_neox", LLAMA | {"num_attention_heads": 2, "attention_bias": False,
                                                "tie_word_embeddings": True} | rope(
        "default", partial_rotary_factor=0.25)),
    "gpt2_plain": ("gpt2", GPT2),
    "gpt2_untied": ("gpt2", GPT2 | {"n_inner": 24, "tie_word_embeddings": False}),
    "gpt2_gelu": ("gpt2", GPT2 | {"n_head": 2, "activation_function": "gelu", "layer_norm_epsilon": 1e-3}),
    "starcoder2_window": ("starcoder2", LLAMA | {"num_key_value_heads": 2, "sliding_window": 5}),
    "starcoder2_few_biases": ("starcoder2", LLAMA | {"num_key_value_heads": 4, "use_bias": False, "norm_epsilon": 1e-3,
                                                    "tie_word_embeddings": False, "hidden_act": "gelu"}),
    "stablelm_biases": ("stablelm", LLAMA | {"num_key_value_heads": 2, "use_qkv_bias": True} | rope(
        "default", partial_rotary_factor=0.5)),
    "stablelm_plain": ("stablelm", LLAMA | {"num_key_value_heads": 4, "tie_word_embeddings": True} | rope(
        "default", partial_rotary_factor=1.0)),
    "olmo2_grouped": ("olmo2", LLAMA | {"num_key_value_heads": 2, "pad_token_id": None}),
    "olmo2_biases": ("olmo2", LLAMA | {"attention_bias": True, "tie_word_embeddings": True, "rms_norm_eps": 1e-3,
                                         "pad_token_id": None}
                     | rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                            original_max_position_embeddings=32)),
    "phi3_short": ("phi3", PHI3 | {"num_key_value_heads": 2, "original_max_position_embeddings": 12} | longrope(4)),
    "phi3_long": ("phi3", PHI3 | {"num_attention_heads": 2, "original_max_position_embeddings": 8, "sliding_window": 6,
                                  "tie_word_embeddings": True} | longrope(6, partial_rotary_factor=0.75)),
    "phi3_plain": ("phi3", PHI3 | {"num_key_value_heads": 1}),
    "smollm3_default": ("smollm3", LLAMA | {"no_rope_layer_interval": 2, "num_key_value_heads": 2, "pad_token_id": None}),
    "smollm3_window": ("smollm3", LLAMA | {"num_key_value_heads": 1, "no_rope_layers": [0, 1], "pad_token_id": None,
                                           "use_sliding_window": True, "sliding_window": 4, "attention_bias": True,
                                           "tie_word_embeddings": False}
                       | rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "granite_factors": ("granite", LLAMA | {"num_key_value_heads": 2, "embedding_multiplier": 12.0,
                                            "residual_multiplier": 0.22, "attention_multiplier": 0.0078125,
                                            "logits_scaling": 7.0, "tie_word_embeddings": True}),
    "granite_biases": ("granite", LLAMA | {"attention_bias": True, "attention_multiplier": 0.5}),
    "gemma_plain": ("gemma", LLAMA | {"num_key_value_heads": 1, "head_dim": 6, "pad_token_id": None}),
    "gemma2_windows": ("gemma2", LLAMA | {"num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 6,
                                          "sliding_window": 4, "query_pre_attn_scalar": 10, "pad_token_id": None}),
    "gemma2_uncapped": ("gemma2", LLAMA | {"num_key_value_heads": 4, "head_dim": 4, "attn_logit_softcapping": None,
                                           "final_logit_softcapping": None, "attention_bias": True,
                                           "layer_types": ["full_attention", "full_attention"], "pad_token_id": None}),
    "gemma3_windows": ("gemma3_text", LLAMA | {
        "num_hidden_layers": 3, "hidden_size": 12, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
        "sliding_window": 4, "query_pre_attn_scalar": 10, "pad_token_id": None,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}}}),
    "gemma3_capped": ("gemma3_text", LLAMA | {"num_key_value_heads": 2, "head_dim": 4, "final_logit_softcapping": 3.0,
                                              "pad_token_id": None}),
    "glm4_biases": ("glm4", LLAMA | {"num_key_value_heads": 2, "head_dim": 8, "eos_token_id": 1, "pad_token_id": None}
                    | rope("default", partial_rotary_factor=0.5)),
    "glm4_plain": ("glm4", LLAMA | {"num_key_value_heads": 1, "head_dim": 6, "attention_bias": False, "eos_token_id": 1,
                                    "tie_word_embeddings": True, "pad_token_id": None}
                   | rope("default", partial_rotary_factor=1.0)),
    "qwen2_mixed": ("qwen2", LLAMA | {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 4,
                                      "max_window_layers": 1}),
    "mixtral_plain": ("mixtral", LLAMA | {"num_key_value_heads": 2, "num_local_experts": 4}),
    "mixtral_balanced": ("mixtral", LLAMA | {"num_key_value_heads": 1, "num_local_experts": 3, "sliding_window": 5, "head_dim": 6,
                                            "output_router_logits": True, "router_aux_loss_coef": 0.2}),
    "olmoe_plain": ("olmoe", LLAMA | {"num_experts": 5, "num_experts_per_tok": 2, "pad_token_id": None, "eos_token_id": 2}),
    "olmoe_balanced": ("olmoe", LLAMA | {"num_experts": 4, "num_experts_per_tok": 3, "num_key_value_heads": 2, "norm_topk_prob": True,
                                        "output_router_logits": True, "attention_bias": True, "pad_token_id": None,
                                        "eos_token_id": 2}),
    "qwen3_moe_plain": ("qwen3_moe", EXPERTS | {"head_dim": 8, "norm_topk_prob": True}),
    "qwen3_moe_dense": ("qwen3_moe", EXPERTS | {"head_dim": 4, "num_hidden_layers": 3, "mlp_only_layers": [1], "output_router_logits": True,
                                               "router_aux_loss_coef": 0.1, "tie_word_embeddings": True}),
    "qwen2_moe_shared": ("qwen2_moe", EXPERTS | {"shared_expert_intermediate_size": 20}),
    "qwen2_moe_sparse": ("qwen2_moe", EXPERTS | {"shared_expert_intermediate_size": 10, "decoder_sparse_step": 2, "num_hidden_layers": 4,
                                                "norm_topk_prob": True, "qkv_bias": False, "output_router_logits": True,
                                                "router_aux_loss_coef": 0.3}),
    "dbrx_plain": ("dbrx", DBRX | {"attn_config": {"kv_n_heads": 2, "clip_qkv": 0.9, "rope_theta": 10000.0}, "ffn_config": {
        "ffn_hidden_size": 12, "moe_num_experts": 4, "moe_top_k": 2}}),
    "dbrx_sums": ("dbrx", DBRX | {"attn_config": {"kv_n_heads": 1, "clip_qkv": 8, "rope_theta": 10000.0}, "ffn_config": {
        "ffn_hidden_size": 20, "moe_num_experts": 3, "moe_top_k": 1, "moe_normalize_expert_weights": None}}),
}


SEEDS = {  # of models of which no token is undecided between two experts (check_choices)
    "mixtral_plain": 6000, "mixtral_balanced": 6120, "olmoe_plain": 6070, "olmoe_balanced": 6000, "qwen3_moe_plain": 6020,
    "qwen3_moe_dense": 6010, "qwen2_moe_shared": 6010, "qwen2_moe_sparse": 6110, "dbrx_plain": 6000, "dbrx_sums": 6000}


@contextlib.contextmanager
def fp64_in_place_of_fp32():
    """Code of transformers that raises values to torch.float32 keeps them in fp64."""
    fp32, floating, convert = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = lambda self, *arguments, **named: self.double()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = fp32, floating, convert
        torch.set_default_dtype(fp32)


def configuration(family, settings):
    return transformers.AutoConfig.for_model(family, attn_implementation="eager", experts_implementation="eager", **settings)


def fill(model, seed):
    """Non-trivial parameters, biases and norms too, each exactly representable in bf16."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if name.endswith("bias"):
                values *= 0.2
            elif parameter.ndim == 1:  # the weight of a norm
                values = 0.2 * values + (0 if model.config.model_type.startswith("gemma") else 1)
            elif "emb" in name or "wte" in name or "wpe" in name:
                values *= 0.4
            else:
                values *= 1.5 / math.sqrt(parameter.shape[-1])
            parameter.copy_(values.bfloat16())


def stored_tensors(family, name, tensor):
    """The tensors of transformers' files that hold a parameter: since its version 5 the experts of a layer are one."""
    if family == "gpt_neox":  # the head's name before version 5
        return [(name.replace("lm_head.", "embed_out."), tensor)]
    if not (name.endswith(("experts.gate_up_proj", "experts.down_proj")) and tensor.ndim == 3):
        return [(name.replace(".mlp.gate.", ".block_sparse_moe.gate.") if family == "mixtral" else name, tensor)]
    prefix = name[:name.rindex(".") + 1]
    parts = {"down_proj": tensor}
    if name.endswith("gate_up_proj"):
        parts = dict(zip(("gate_proj", "up_proj"), tensor.chunk(2, dim=1)))
    if family == "mixtral":
        prefix = prefix.replace(".mlp.", ".block_sparse_moe.")
        parts = {{"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}[part]: values for part, values in parts.items()}
    return [(f"{prefix}{e}.{part}.weight", values[e].contiguous()) for part, values in parts.items() for e in range(len(tensor))]


def check_choices(name, model, ids):
    """Rounding must not change which experts a token uses."""
    least = []

    def look(module, arguments, _):
        logits = (arguments[0].flatten(0, -2) @ getattr(module, "layer", module).weight.T).sort(-1, descending=True).values
        top_k = module.top_k if hasattr(module, "top_k") else model.config.ffn_config.moe_top_k
        least.append((logits[:, top_k - 1] - logits[:, top_k]).min().item())

    hooks = [m.register_forward_hook(look) for n, m in model.named_modules() if n.endswith((".mlp.gate", ".ffn.router"))]
    with torch.no_grad():
        model(input_ids=ids, use_cache=False)
    for hook in hooks:
        hook.remove()
    assert all(distance > 0.02 for distance in least), (name, least)


def make_case(name, family, settings, seed, out):
    config_json = configuration(family, settings).to_json_string(use_diff=False)
    with fp64_in_place_of_fp32():
        model = transformers.AutoModelForCausalLM.from_config(configuration(family, settings), dtype=torch.float64)
        fill(model, seed)
        model.train()
        generator = torch.Generator().manual_seed(seed + 1)
        ids = torch.randint(0, 29, (2, 12), generator=generator)
        targets = torch.cat([ids[:, 1:], torch.full((2, 1), IGNORED)], dim=1)
        targets[1, :4] = IGNORED
        check_choices(name, model, ids)
        result = model(input_ids=ids, use_cache=False)
        logits = result.logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        if getattr(model.config, "output_router_logits", False):
            loss = loss + model.config.router_aux_loss_coef * result.aux_loss
        loss.backward()
    assert logits.dtype == torch.float64
    tensors = {"input_ids": ids, "targets": targets, "logits64": logits, "loss64": loss}
    for module_name, parameter in model.named_parameters():
        for kind, values in (("param", parameter.detach().to(torch.float32)), ("grad64", parameter.grad)):
            tensors |= {f"{kind}/{stored}": part for stored, part in stored_tensors(family, module_name, values)}
    config = json.loads(config_json)
    config["torch_dtype"] = "float32"
    config["dtype"] = "float32"
    config["architectures"] = [type(model).__name__]
    save(tensors, out / f"{name}.safetensors", {"config": json.dumps(config), "versions": json.dumps(VERSIONS)})
    print(name, loss.item(), sum(p.numel() for p in model.parameters()))


def main():
    parser = argparse.ArgumentParser()
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--only", default="", help="the beginning of names of models")
    parser.add_argument("--out", type=pathlib.Path, default=here.parent / "golden" / "families")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for seed, (name, (family, settings)) in enumerate(CASES.items()):
        if name.startswith(arguments.only):
            make_case(name, family, settings, SEEDS.get(name, 5000 + 10 * seed), arguments.out)


if __name__ == "__main__":
    main()
