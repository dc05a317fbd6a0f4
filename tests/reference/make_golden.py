"""Makes the committed golden numbers in ../golden (see README.md next to this file).

The numbers come from other people's programs, run unchanged: LLM Foundry's MPTForCausalLM (`attn_impl: torch`) for form
(a), transformers' MptForCausalLM for form (b), Composer's and LLM Foundry's optimizers, schedulers, adaptive clipping and callbacks.
Every parameter is exactly representable in bf16, so that the fp64, fp32 and bf16 runs start from the same weights
and the distance between them is arithmetic alone.

    python make_golden.py [--out ../golden]
"""

import argparse
import ast
import contextlib
import copy
import dataclasses
import json
import math
import pathlib
import random
import sys
import types
import typing
import warnings

import foundry_import

foundry_import.prepare()
warnings.filterwarnings("ignore")

import importlib.metadata

import torch
import transformers
from composer.algorithms.gradient_clipping.gradient_clipping import _get_clipped_gradient_coeff
from composer.callbacks.early_stopper import EarlyStopper
from composer.core.time import Time, Timestamp, TimeUnit
from composer.optim.decoupled_weight_decay import DecoupledAdamW
from composer.optim.scheduler import (ConstantWithWarmupScheduler, CosineAnnealingWithWarmupScheduler,
                                      LinearWithWarmupScheduler)
from llmfoundry.callbacks.kill_loss_spike_callback import KillLossSpike
from llmfoundry.models.layers.attention import gen_slopes
from llmfoundry.models.layers.dmoe import LearnedRouter
from llmfoundry.models.mpt import configuration_mpt, modeling_mpt
from llmfoundry.models.mpt.configuration_mpt import MPTConfig
from llmfoundry.models.mpt.modeling_mpt import MPTForCausalLM
from llmfoundry.models.utils.mpt_param_count import mpt_get_active_params, mpt_get_total_params
from llmfoundry.optim.lion import DecoupledLionW
from llmfoundry.optim.scheduler import InverseSquareRootWithWarmupScheduler
from llmfoundry.utils.exceptions import HighLossError, LossSpikeError
from golden_file import save

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

VERSIONS = {
    name: importlib.metadata.version(name)
    for name in ("torch", "transformers", "llm-foundry", "mosaicml", "safetensors", "numpy")
}
IGNORED = -100
STEP_SETTINGS = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 1e-5}
SEPARATOR = 7  # ends the texts packed in a row, where a case has them


@dataclasses.dataclass
class Case:
    """One tiny model: its config in LLM Foundry's names, the program that runs it, and its batch."""
    name: str
    source: str  # "foundry", "transformers" or "megablocks"
    config: dict
    seed: int
    batch: int = 2
    seq: int = 16
    ignore: bool = False  # some labels are -100, and not equally many per row
    generate: int = 0     # length of the prompt; 0: no generation
    steps: int = 0        # optimizer steps on the batch, in fp64


def mpt(d_model, n_heads, n_layers, vocab_size, max_seq_len, attn=None, **more):
    """A config in LLM Foundry's field names in which everything that matters is written out."""
    attn_config = {
        "attn_type": "multihead_attention", "attn_impl": "torch", "attn_pdrop": 0.0, "qk_ln": False, "clip_qkv": None,
        "softmax_scale": None, "alibi": False, "alibi_bias_max": 8,
    } | (attn or {})
    return {
        "model_type": "mpt", "d_model": d_model, "n_heads": n_heads, "n_layers": n_layers, "expansion_ratio": 4,
        "max_seq_len": max_seq_len, "vocab_size": vocab_size, "resid_pdrop": 0.0, "emb_pdrop": 0.0,
        "learned_pos_emb": not attn_config["alibi"] and not attn_config.get("rope", False), "attn_config": attn_config, "no_bias": False,
        "attention_bias": None, "embedding_fraction": 1.0, "norm_type": "low_precision_layernorm", "norm_eps": 1e-5,
        "logit_scale": None, "tie_word_embeddings": True, "use_cache": False,
    } | more


def small(**more):
    """A model of 1 layer, on which one option is changed."""
    return mpt(16, 2, 1, 29, 8, **more)


def ffn(activation, ffn_type="mptmlp", ffn_hidden_size=None, **more):
    sizes = {} if ffn_hidden_size is None else {"ffn_hidden_size": ffn_hidden_size}
    return {"ffn_type": ffn_type, "ffn_act_fn": {"name": activation} | more} | sizes


def experts(count, top_k, mlp_type, norm=None, uniform=False, **more):
    """The ffn_config of LLM Foundry's experts in PyTorch alone."""
    return {"ffn_type": "torch_dmoe", "moe_num_experts": count, "moe_top_k": top_k, "mlp_type": mlp_type, "moe_jitter_eps": None,
            "moe_normalize_expert_weights": norm, "uniform_expert_assignment": uniform, "ffn_hidden_size": 12} | more


def megablocks(ffn_type, count, top_k, mlp_type, norm=None, loss=0.1, **more):
    """The ffn_config of MegaBlocks' experts."""
    return {"ffn_type": ffn_type, "moe_num_experts": count, "moe_top_k": top_k, "mlp_type": mlp_type, "moe_jitter_eps": None,
            "moe_normalize_expert_weights": norm, "moe_loss_weight": loss, "moe_world_size": 1, "ffn_hidden_size": 12} | more


def rope(theta=10000, **scaling):
    """The part of an attn_config that asks for transformers' rotary embedding."""
    return {"rope": True, "rope_theta": theta, "rope_impl": "hf",
            "rope_hf_config": {"type": "no_scaling", "factor": 1.0} | scaling}


CASES = [
    # Form (a), the pretraining YAMLs' form. wpe has more rows than the batch uses.
    Case("a1", "foundry", mpt(32, 4, 2, 96, 20, norm_type="layernorm"), seed=1001),
    # Everything that scales or clips. Order in the code: Wqkv, clip, q_ln/k_ln, scale.
    Case("a2", "foundry",
         mpt(32, 4, 2, 96, 16, {"qk_ln": True, "clip_qkv": 0.5, "softmax_scale": 0.3},
             logit_scale="inv_sqrt_d_model"), seed=1002),
    # ALiBi in LLM Foundry's own code, heads not a power of two, no bias, labels partly ignored, other expansion.
    Case("a3", "foundry", mpt(48, 6, 1, 96, 20, {"alibi": True}, no_bias=True, attention_bias=False,
                              expansion_ratio=2), seed=1003, ignore=True),
    # The two halves of no_bias/attention_bias apart, a learned-position model, odd sizes, logit_scale as a number.
    Case("a4", "foundry", mpt(24, 3, 1, 61, 11, {"clip_qkv": 1.0}, attention_bias=False, logit_scale=0.5), seed=1004,
         batch=3, seq=11, ignore=True),
    Case("a5", "foundry", mpt(24, 3, 1, 61, 11, {"qk_ln": True}, no_bias=True, attention_bias=True,
                              norm_eps=1e-3, embedding_fraction=0.25), seed=1005, batch=1, seq=7),
    # Everything outside attention that MPTConfig can change, each alone on one small model (c...), then together.
    Case("c_rmsnorm", "foundry", small(norm_type="rmsnorm"), seed=3001, seq=8),
    Case("c_gelu_tanh", "foundry", small(ffn_config=ffn("gelu", approximate="tanh")), seed=3002, seq=8),
    Case("c_quick_gelu", "foundry", small(ffn_config=ffn("quick_gelu")), seed=3003, seq=8),
    Case("c_silu", "foundry", small(ffn_config=ffn("silu")), seed=3004, seq=8),
    Case("c_relu", "foundry", small(ffn_config=ffn("relu")), seed=3005, seq=8),
    Case("c_glu", "foundry", small(ffn_config={"ffn_type": "mptglu"}), seed=3006, seq=8),
    Case("c_hidden", "foundry", small(ffn_config={"ffn_type": "mptmlp", "ffn_hidden_size": 23}), seed=3007, seq=8),
    Case("c_ratio", "foundry", small(expansion_ratio=2.625), seed=3008, seq=8),
    Case("c_untied", "foundry", small(tie_word_embeddings=False), seed=3009, seq=8),
    Case("c_softcap", "foundry", small(final_logit_softcapping=2.0), seed=3010, seq=8),
    Case("c_fused", "foundry", small(fuse_norm_attn_norm=True), seed=3011, seq=8),
    # The shape of most later models: RMSNorm, gated SiLU, no bias, its own head.
    Case("c_modern", "foundry",
         mpt(24, 3, 2, 43, 12, {"alibi": True, "qk_ln": True, "norm_type": "rmsnorm"}, no_bias=True,
             norm_type="low_precision_rmsnorm", ffn_config=ffn("silu", "mptglu", ffn_hidden_size=36),
             tie_word_embeddings=False, final_logit_softcapping=3.0, logit_scale=1.5), seed=3012, seq=12, ignore=True),
    # rmsnorm with biases, a gate with biases, a scale but no cap, q and k by layernorm.
    Case("c_mixed", "foundry",
         mpt(24, 3, 1, 61, 11, {"qk_ln": True}, norm_type="rmsnorm", norm_eps=1e-3,
             ffn_config=ffn("gelu", "mptglu", approximate="tanh"), expansion_ratio=1.5, tie_word_embeddings=False,
             logit_scale="inv_sqrt_d_model", embedding_fraction=0.5), seed=3013, batch=3, seq=11, ignore=True),
    # Form (b), the hub's form: transformers' own implementation.
    Case("b1", "transformers", mpt(32, 4, 2, 96, 32, {"alibi": True}, no_bias=True), seed=2001, generate=5),
    Case("b2", "transformers",
         mpt(48, 6, 1, 96, 40, {"alibi": True, "clip_qkv": 0.75, "softmax_scale": 0.25}, no_bias=True), seed=2002,
         seq=24, ignore=True, generate=9),
    Case("b3", "transformers", mpt(16, 2, 1, 29, 8, {"alibi": True}, no_bias=True, tie_word_embeddings=False), seed=2003,
         seq=8),
    # Attention's options in LLM Foundry's own code, alone and together.
    Case("d_grouped", "foundry", mpt(32, 4, 2, 96, 16, {"attn_type": "grouped_query_attention", "kv_n_heads": 2} | rope()),
         seed=3001),
    Case("d_multiquery", "foundry", mpt(32, 4, 1, 96, 16, {"attn_type": "multiquery_attention", "fused_qkv": False,
                                                 "clip_qkv": 1.0}), seed=3002),
    Case("d_by_head", "foundry", mpt(48, 6, 1, 96, 16, {"attn_type": "grouped_query_attention", "kv_n_heads": 3,
                                                 "qk_gn": True, "alibi": True, "sliding_window_size": 3}), seed=3003),
    Case("d_capped", "foundry", mpt(32, 4, 1, 96, 16, {"attn_type": "grouped_query_attention", "kv_n_heads": 2,
                                                 "qk_ln": True, "attn_logit_softcapping": 1.5}, no_bias=True),
         seed=3004),
    Case("d_packed", "foundry", mpt(32, 4, 2, 96, 20, {"attn_uses_sequence_id": True}), seed=3005, ignore=True),
    Case("d_linear", "foundry", mpt(32, 4, 1, 96, 16, {"attn_temperature_tuning": {"floor_scale": 4, "attn_scale": 0.3}}
                              | rope(theta=500, type="linear", factor=4.0)), seed=3006),
    Case("d_llama3", "foundry", mpt(32, 2, 1, 96, 16, rope(theta=100, type="llama3", factor=8.0, low_freq_factor=1.0,
                                                     high_freq_factor=4.0, original_max_position_embeddings=64)),
         seed=3007),
    Case("d_layers", "foundry", mpt(16, 2, 3, 64, 16, {"sliding_window_size": 6} | rope(), block_overrides={
        "order": [{"name": "narrow"}, {"order": [{"name": "default"}, {"name": "far"}], "repeat": 1}],
        "overrides": {"narrow": {"attn_config": {"sliding_window_size": 2}},
                      "far": {"attn_config": {"sliding_window_size": -1, "nope": True,
                                              "attn_temperature_tuning": {"floor_scale": 3, "attn_scale": 0.2}}}}}),
         seed=3008),
    # Layers that attend to the keys of earlier ones: of the layer before, of one that itself reuses, of one far back.
    Case("d_reuse", "foundry", mpt(24, 4, 5, 64, 20, {
        "attn_type": "grouped_query_attention", "kv_n_heads": 2, "qk_ln": True, "clip_qkv": 1.5} | rope(),
        block_overrides={
            "order": [{"name": "narrow"}, {"name": "reuse", "repeat": 2}, {"name": "default"}, {"name": "far"}],
            "overrides": {"narrow": {"attn_config": {"sliding_window_size": 4}},
                          "reuse": {"attn_config": {"reuse_kv_layer_idx": -1}},
                          "far": {"attn_config": {"sliding_window_size": 3, "reuse_kv_layer_idx": -4, "nope": True,
                                                  "attn_temperature_tuning": {"floor_scale": 3, "attn_scale": 0.2}}}}}),
         seed=3010, ignore=True),
    Case("d_reuse_bias", "foundry", mpt(32, 4, 3, 64, 16, {"qk_gn": True, "fused_qkv": False, "kv_dim": 32},
        attention_bias=True, no_bias=True, block_overrides={
            "order": [{"name": "default"}, {"name": "reuse", "repeat": 2}],
            "overrides": {"reuse": {"attn_config": {"reuse_kv_layer_idx": -1}}}}), seed=3011),
    # xPos, whose queries another layer's keys meet as well.
    Case("d_xpos", "foundry", mpt(32, 4, 2, 64, 16, {
        "rope": True, "rope_theta": 100, "rope_impl": "dail",
        "rope_dail_config": {"type": "xpos", "pos_idx_in_fp32": True, "xpos_scale_base": 8}},
        block_overrides={"order": [{"name": "default"}, {"name": "reuse"}],
                         "overrides": {"reuse": {"attn_config": {"reuse_kv_layer_idx": -1}}}}), seed=3012),
    Case("d_all", "foundry", mpt(24, 6, 2, 64, 24, {
        "attn_type": "grouped_query_attention", "kv_n_heads": 2, "fused_qkv": False, "qk_gn": True, "clip_qkv": 1.5,
        "softmax_scale": 0.4, "attn_logit_softcapping": 3.0, "sliding_window_size": 4, "attn_uses_sequence_id": True,
    } | rope(type="dynamic", factor=2.0), expansion_ratio=2, attention_bias=True, no_bias=True), seed=3009, batch=3,
         seq=21, ignore=True),
    # Experts, whose seeds are such that no token's choice is within 0.1 of another one (check_choices).
    Case("e_mlp", "foundry", small(ffn_config=experts(4, 1, "mlp")), seed=4001, seq=8),
    Case("e_glu", "foundry", small(ffn_config=experts(4, 2, "glu")), seed=4022, seq=8),
    Case("e_glu_single", "foundry", small(ffn_config=experts(3, 1, "glu", norm=2)), seed=4013, seq=8),
    Case("e_norm", "foundry", small(ffn_config=experts(5, 2, "mlp", norm=1.0) | ffn("silu", "torch_dmoe", 12)), seed=4054, seq=8,
         ignore=True),
    Case("e_uniform", "foundry", small(ffn_config=experts(3, 2, "mlp", uniform=True)), seed=4005, seq=8),
    Case("e_modern", "foundry",
         mpt(24, 3, 2, 43, 12, {"alibi": True, "qk_ln": True, "norm_type": "rmsnorm"}, no_bias=True, norm_type="rmsnorm",
             ffn_config=experts(6, 3, "glu", norm=2.0) | ffn("silu", "torch_dmoe", 20), tie_word_embeddings=False),
         seed=4146, seq=12, ignore=True),
    # Experts of MegaBlocks, whose code needs a GPU: its formula, computed here (MegaBlocksExperts).
    Case("m_dmoe", "megablocks", mpt(16, 2, 2, 29, 8, ffn_config=megablocks("mb_dmoe", 4, 2, "glu", norm=1.0)), seed=4431, seq=8,
         ignore=True, steps=10),
    Case("m_plain", "megablocks", small(ffn_config=megablocks("mb_dmoe", 5, 1, "mlp", loss=0.05), no_bias=True), seed=4112, seq=8,
         steps=10),
    Case("m_moe", "megablocks", small(ffn_config=megablocks("mb_moe", 4, 2, "mlp", moe_capacity_factor=1.0)), seed=4103, seq=8,
         batch=3, steps=10),
    Case("m_shared", "megablocks",
         mpt(16, 2, 2, 29, 8, {"alibi": True}, no_bias=True, norm_type="rmsnorm", tie_word_embeddings=False, ffn_config=megablocks(
             "mb_dmoe", 6, 3, "glu", norm=2.0, loss=0.2, shared_expert=True, shared_expert_hidden_size=10,
             moe_zloss_weight=0.03, moe_balance_set="sequence") | {"ffn_act_fn": {"name": "silu"}}), seed=4334, seq=8, ignore=True,
         steps=10),
]


class DailRotary(torch.nn.Module):
    """In the place of flash_attn.layers.rotary.RotaryEmbedding, whose kernels need a GPU: xPos as published there and in
    Sun et al., 2022. Angles and scales in fp64 or fp32, rounded to the type of q; the products in fp32 at least."""

    def __init__(self, dim, base, interleaved, scale_base, pos_idx_in_fp32, device):
        super().__init__()
        assert not interleaved and pos_idx_in_fp32 and scale_base is not None and device == "cpu"
        self.dim, self.base, self.scale_base = dim, base, scale_base

    def forward(self, q, kv, seqlen_offset, max_seqlen):
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        pair = torch.arange(0, self.dim, 2, dtype=wide) / self.dim
        position = torch.arange(max_seqlen, dtype=wide)[:, None]
        angle = position * self.base ** -pair
        scale = ((pair + 0.4) / 1.4) ** ((position - max_seqlen // 2) / self.scale_base)

        def turned(x, by):
            part = slice(seqlen_offset, seqlen_offset + x.shape[1])
            cosine, sine = ((f(angle) * by).to(x.dtype).to(wide)[part, None] for f in (torch.cos, torch.sin))
            low, high = x.to(wide).chunk(2, dim=-1)
            return torch.cat([low * cosine - high * sine, low * sine + high * cosine], dim=-1).to(x.dtype)

        k, v = kv.unbind(dim=2)
        return turned(q, scale), torch.stack([turned(k, 1 / scale), v], dim=2)


modeling_mpt.DAILRotaryEmbedding = DailRotary
configuration_mpt.is_flash_v2_installed = lambda v2_version=None: True  # it is asked only about this


def build_foundry(config):
    # MPTConfig takes its dictionaries by reference and fills them in.
    return MPTForCausalLM(MPTConfig(**{k: copy.deepcopy(v) for k, v in config.items() if k != "model_type"}))


def build_transformers(config):
    attn = config["attn_config"]
    fixed = {"expansion_ratio": 4, "no_bias": True, "logit_scale": None}
    wrong = [k for k, v in fixed.items() if config[k] != v]
    assert not wrong and attn["alibi"] and attn["alibi_bias_max"] == 8 and not attn["qk_ln"], wrong
    return transformers.MptForCausalLM(transformers.MptConfig(
        d_model=config["d_model"], n_heads=config["n_heads"], n_layers=config["n_layers"],
        max_seq_len=config["max_seq_len"], vocab_size=config["vocab_size"], layer_norm_epsilon=config["norm_eps"],
        attn_config={"alibi": True, "alibi_bias_max": 8, "clip_qkv": attn["clip_qkv"], "qk_ln": False,
                     "softmax_scale": attn["softmax_scale"], "attn_pdrop": 0.0},
        attn_implementation="eager", no_bias=True, use_cache=True,
        tie_word_embeddings=config["tie_word_embeddings"]))


class MegaBlocksExperts(torch.nn.Module):
    """What MegaBlocks' dMoE and MoE compute, by every expert for every row. MoE drops the rows for which an expert has no
    room: MegaBlocks counts them in a microbatch, here it is in each sequence, in order of position."""

    def __init__(self, config):
        super().__init__()
        self.settings = settings = config["ffn_config"]
        d, hidden, self.count = config["d_model"], settings["ffn_hidden_size"], settings["moe_num_experts"]
        self.layers = config["n_layers"]
        matrix = lambda rows: torch.nn.Parameter(torch.empty(rows, d))  # noqa: E731
        names = ["w1", "v1", "w2"] if settings["mlp_type"] == "glu" else ["w1", "w2"]
        self.router = torch.nn.ModuleDict({"layer": torch.nn.Linear(d, self.count, bias=False)})
        self.experts = torch.nn.Module()
        self.experts.mlp = torch.nn.ParameterDict({name: matrix(self.count * hidden) for name in names})
        if not config["no_bias"]:
            self.experts.bias = torch.nn.Parameter(torch.empty(d))
        self.shared_expert = None
        if settings.get("shared_expert"):
            width = settings["shared_expert_hidden_size"]
            self.shared_expert = torch.nn.ParameterDict({name: matrix(width) for name in names})

    def activation(self, x):
        silu = self.settings.get("ffn_act_fn", {}).get("name") == "silu"
        return torch.nn.functional.silu(x) if silu else torch.nn.functional.gelu(x, approximate="tanh")

    def feed_forward(self, x, weights, e, count):
        w1, w2 = (weights[name].chunk(count)[e] for name in ("w1", "w2"))
        hidden = self.activation(x @ w1.T)
        return (hidden * (x @ weights["v1"].chunk(count)[e].T) if "v1" in weights else hidden) @ w2

    def forward(self, x):
        (batch, sequence, _), top_k = x.shape, self.settings["moe_top_k"]
        logits = self.router["layer"](x)
        scores = logits.softmax(-1)
        chosen = torch.nn.functional.one_hot(scores.topk(top_k, dim=-1).indices, self.count).sum(2).to(x.dtype)
        weights = scores * chosen
        if norm := self.settings["moe_normalize_expert_weights"]:
            weights = weights / weights.norm(p=norm, dim=-1, keepdim=True)
        if self.settings["ffn_type"] == "mb_moe":
            room = int(self.settings["moe_capacity_factor"] * sequence * top_k / self.count)
            weights = weights * (chosen.cumsum(1) <= room)
        y = sum(weights[..., e, None] * self.feed_forward(x, self.experts.mlp, e, self.count) for e in range(self.count))
        if self.shared_expert is not None:
            y = y + self.feed_forward(x, self.shared_expert, 0, 1)
        self.routed = (logits, scores, chosen)
        return y + self.experts.bias if hasattr(self.experts, "bias") else y

    def losses(self, tokens):
        """The balancing loss and the z-loss. The mean over sequences counts each as often as it has tokens with a loss."""
        (logits, scores, chosen), settings = self.routed, self.settings
        share = tokens / tokens.sum()
        if settings.get("moe_balance_set") == "sequence":
            products = (chosen.mean(1) * scores.mean(1)).sum(-1) @ share
        else:
            products = chosen.mean((0, 1)) @ scores.mean((0, 1))
        weight = settings["moe_loss_weight"] * self.count / (self.layers * settings["moe_top_k"])
        return weight * products + settings.get("moe_zloss_weight", 0) * (logits.logsumexp(-1).square().mean(-1) @ share)


def build_megablocks(config):
    """LLM Foundry's MPT with those experts in each block."""
    model = build_foundry(config | {"ffn_config": {"ffn_type": "mptmlp"}})
    for block in model.transformer.blocks:
        block.ffn = MegaBlocksExperts(config)
    return model


def router_losses(model, targets):
    experts = [module for module in model.modules() if isinstance(module, MegaBlocksExperts)]
    return sum(e.losses((targets != IGNORED).sum(1).to(e.routed[1].dtype)) for e in experts)


BUILD = {"foundry": build_foundry, "transformers": build_transformers, "megablocks": build_megablocks}


def fill(model, seed):
    """Non-trivial parameters, biases and norms too, each exactly representable in bf16."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            z = torch.randn(p.shape, generator=generator)
            if name.endswith("bias"):
                z *= 0.2
            elif p.ndim == 1:  # the weight of a norm
                z = 1 + 0.2 * z
            elif "wte" in name:
                z *= 0.25
            elif "wpe" in name:
                z *= 0.3
            else:
                z *= 1.5 / math.sqrt(p.shape[-1])
            p.copy_(z.bfloat16())


def batch(case):
    generator = torch.Generator().manual_seed(case.seed + 7)
    shape = (case.batch, case.seq)
    ids = torch.randint(0, case.config["vocab_size"], shape, generator=generator)
    if uses_sequence_id(case):
        ids[torch.rand(shape, generator=generator) < 0.2] = SEPARATOR
    labels = ids.clone()
    if case.ignore:
        labels[torch.rand(shape, generator=generator) < 0.3] = IGNORED
        labels[0, : case.seq // 2] = IGNORED
    targets = torch.full_like(labels, IGNORED)
    targets[:, :-1] = labels[:, 1:]
    return ids, labels, targets


@contextlib.contextmanager
def keep_float64():
    """For fp64 runs of transformers, which writes `.float()` (softmax, loss) to raise bf16 to fp32: that must not lower
    fp64, nor integers (positions) become less. It also makes its causal mask in the default type, where fp64's most negative number has to fit."""
    original = torch.Tensor.float
    torch.Tensor.float = lambda self, *a, **k: (
        original(self, *a, **k) if self.dtype.is_floating_point and self.dtype != torch.float64 else self.double())
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.Tensor.float = original
        torch.set_default_dtype(torch.float32)


def uses_sequence_id(case):
    return case.config["attn_config"].get("attn_uses_sequence_id", False)


def sequence_ids(ids):
    """Which packed text each token belongs to, by the collator of LLM Foundry's text loader. Its module imports all of
    streaming and Composer, so the class is taken from the file alone."""
    path = pathlib.Path(sys.modules["llmfoundry"].__path__[0]) / "data" / "text_data.py"
    tree = ast.parse(path.read_text())
    name = "ConcatenatedSequenceCollatorWrapper"
    tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    scope = {"torch": torch} | {word: getattr(typing, word) for word in ("Any", "Callable", "Optional", "cast")}
    exec(compile(tree, str(path), "exec"), scope)
    return scope[name](None, eos_token_id=SEPARATOR).get_sequence_id_from_batch({"input_ids": ids})


def rotary_of(model):
    return getattr(getattr(model, "transformer", None), "rotary_embedding", None)


def copy_of(model):
    """A deep copy, but for the configuration of a rotary embedding, which refuses to be copied."""
    config = getattr(rotary_of(model), "config", None)
    return copy.deepcopy(model, {id(config): config})


def set_rotation(model, dtype):
    """The frequencies of a rotary embedding are a buffer, which `.to(dtype)` rounds. Mixed precision keeps buffers in
    fp32: so does the bf16 run. For the fp64 run the same code computes them anew with fp64 in fp32's place."""
    rotary = rotary_of(model)
    if rotary is None or isinstance(rotary, DailRotary):
        return
    rotary.inv_freq = rotary.original_inv_freq
    if dtype == torch.float64:
        torch.float = torch.float64
        rotary.inv_freq = rotary.rope_init_fn(rotary.config, None)[0]
        torch.float = torch.float32


def run(case, model, dtype, ids, labels, targets):
    """Logits, loss and gradients of the mean loss with all parameters and activations in `dtype`."""
    model = copy_of(model).to(dtype).train()  # train: all dropouts are 0, so nothing is random
    set_rotation(model, dtype)
    more = {"sequence_id": sequence_ids(ids)} if uses_sequence_id(case) else {}
    with keep_float64() if dtype == torch.float64 else contextlib.nullcontext():
        out = model(input_ids=ids, labels=labels, **more)
        loss = out.loss
        if dtype == torch.bfloat16 and case.source != "transformers":
            # Its MPTForCausalLM takes the cross entropy of bf16 logits in bf16; training uses flash-attention's fused
            # cross entropy, which reads bf16 logits and computes in fp32, as transformers does. So do we here.
            loss = torch.nn.functional.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten(),
                                                     ignore_index=IGNORED)
        loss = loss + router_losses(model, targets)
        loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    assert all(g is not None and torch.isfinite(g).all() for g in grads.values())
    return out.logits.detach(), loss.detach(), grads


def greedy(model, vocab_size, length, count, seed):
    """A prompt, its greedy continuation by transformers in fp32 with its KV cache, and the smallest margin between the
    first and the second choice (fp64, without the cache). The first prompt is taken that has no near ties, so that any
    sound implementation must give these ids, and that does not fall into repeating a few."""
    model = copy.deepcopy(model).eval()
    double = copy.deepcopy(model).double()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(1000):
        prompt = torch.randint(0, vocab_size, (length,), generator=generator)
        ids = model.generate(prompt[None], attention_mask=torch.ones_like(prompt[None]), max_new_tokens=count,
                             min_new_tokens=count, do_sample=False, use_cache=True, pad_token_id=0,
                             eos_token_id=None)[0]
        with torch.no_grad(), keep_float64():
            logits = double(input_ids=ids[None], use_cache=False).logits[0, length - 1 : -1]
        new, top = ids[length:], logits.topk(2).values
        margin = (top[:, 0] - top[:, 1]).min().item()
        if margin > 1e-2 and len(set(new.tolist())) >= count // 2:
            assert torch.equal(logits.argmax(-1), new), "fp32 with cache and fp64 without it differ"
            return prompt, new, margin
    raise AssertionError("no such prompt")


def error(grads, truth, norm):
    """The distance between two sets of gradients, over the size of the truth, in a norm of all of them together."""
    flat = lambda g: torch.cat([g[n].double().flatten() for n in sorted(g)])  # noqa: E731
    return (norm(flat(grads) - flat(truth)) / norm(flat(truth))).item()


def distance(a, b):
    """max |a - b| over max |b|."""
    return ((a.double() - b.double()).abs().max() / b.double().abs().max()).item()


def check_choices(case, model, ids):
    """Rounding must not change which experts a token uses: the least distance of logits between the last choice and the next
    expert, in fp64. Where experts are assigned to the weights in their order, that order must not change either."""
    least = []

    def look(router, arguments, _):
        if isinstance(router, MegaBlocksExperts):
            best = router.router["layer"](arguments[0].flatten(0, -2)).sort(-1, descending=True).values
            top_k = router.settings["moe_top_k"]
            least.append((best[:, top_k - 1] - best[:, top_k]).min().item())
            return
        best = router.layer(arguments[0].flatten(0, -2)).sort(-1, descending=True).values
        first = 0 if router.uniform_expert_assignment else router.moe_top_k - 1
        least.append((best[:, first:router.moe_top_k] - best[:, first + 1:router.moe_top_k + 1]).min().item())

    model = copy_of(model).double()
    for module in model.modules():
        if isinstance(module, (LearnedRouter, MegaBlocksExperts)):
            module.register_forward_hook(look)
    with torch.no_grad(), keep_float64():
        model(input_ids=ids)
    assert all(distance > 0.1 for distance in least), (case.name, least)


def make_model(case, out):
    model = BUILD[case.source](case.config)
    fill(model, case.seed)
    ids, labels, targets = batch(case)
    check_choices(case, model, ids)
    tensors = {"input_ids": ids, "labels": labels, "targets": targets,
               "loss_tokens": (targets != IGNORED).sum()}
    tensors |= {f"param/{n}": p.detach().float() for n, p in model.named_parameters()}
    runs = {}
    for dtype, suffix in ((torch.float32, ""), (torch.float64, "64"), (torch.bfloat16, "_bf16")):
        logits, loss, grads = run(case, model, dtype, ids, labels, targets)
        runs[suffix] = (logits, loss, grads)
        store = torch.float64 if dtype == torch.float64 else torch.float32
        tensors[f"logits{suffix}"], tensors[f"loss{suffix}"] = logits.to(store), loss.to(store)
        tensors |= {f"grad{suffix}/{n}": g.to(store) for n, g in grads.items()}

    summary = {"source": case.source, "loss": runs["64"][1].item(), "loss_tokens": tensors["loss_tokens"].item(),
               "parameters": sum(p.numel() for p in model.parameters())}
    summary["largest_gradient"] = max(g.abs().max().item() for g in runs["64"][2].values())
    for suffix, name in (("", "fp32"), ("_bf16", "bf16")):
        logits, loss, grads = runs[suffix]
        summary[name] = {
            "logits_error_over_largest_logit": distance(logits, runs["64"][0]),
            "loss_error": abs(loss.double() - runs["64"][1]).item(),
            "gradient_error_over_largest_gradient": error(grads, runs["64"][2], lambda x: x.abs().max()),
            "gradient_error_norm_over_norm": error(grads, runs["64"][2], torch.linalg.vector_norm),
            "worst_tensor_error_norm_over_norm": max(  # but for gradients that are 0, like that of k_ln.bias
                error({n: g}, {n: runs["64"][2][n]}, torch.linalg.vector_norm) for n, g in grads.items()
                if runs["64"][2][n].abs().max() > 1e-12),
        }
    if case.steps:
        parameters, tensors["steps/losses"] = train(case, model, ids, labels, targets)
        tensors |= {f"steps/param/{n}": p for n, p in parameters.items()}
    if case.generate:
        prompt, ids, margin = greedy(model, case.config["vocab_size"], case.generate, 20, case.seed + 8)
        tensors["generate/prompt"], tensors["generate/ids"], summary["greedy_margin"] = prompt, ids, margin

    metadata = {"config": json.dumps(case.config), "source": case.source, "versions": json.dumps(VERSIONS)}
    (out / "mpt").mkdir(parents=True, exist_ok=True)
    save(tensors, out / f"mpt/{case.name}.safetensors", metadata)
    return summary


def train(case, model, ids, labels, targets):
    """The parameters after some steps of Composer's DecoupledAdamW on the batch, in fp64, and the loss before each."""
    model = copy_of(model).to(torch.float64).train()
    optimizer = DecoupledAdamW(model.parameters(), **STEP_SETTINGS)
    losses = []
    for _ in range(case.steps):
        optimizer.zero_grad()
        with keep_float64():
            out = model(input_ids=ids, labels=labels)
            loss = out.loss + router_losses(model, targets)
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {n: p.detach() for n, p in model.named_parameters()}, torch.tensor(losses, dtype=torch.float64)


def compare_programs():
    """The two programs must agree with each other where both can run a config (ALiBi, no bias): fp64, 1e-12."""
    case = next(c for c in CASES if c.name == "b2")
    ids, labels, targets = batch(case)
    results = []
    for source in ("foundry", "transformers"):
        model = BUILD[source](case.config)
        fill(model, case.seed)
        results.append(run(case, model, torch.float64, ids, labels, targets))
    (la, a, ga), (lb, b, gb) = results
    assert ga.keys() == gb.keys()
    worst = max([distance(la, lb), abs(a - b).item()] + [distance(ga[n], gb[n]) for n in ga])
    assert worst < 1e-12, worst
    return worst


def make_optimizer(path, name, optimizer_class, states, settings, size=37):
    """Five steps of an optimizer with given gradients. The first learning rate is 0, as in every warm-up."""
    initial_lr = settings["lr"]
    multipliers = [0.0, 0.5, 1.0, 0.775, 0.1]
    generator = torch.Generator().manual_seed(3001)
    param = torch.randn(size, generator=generator)
    grads = torch.randn(5, size, generator=generator) * torch.logspace(-6, 1, size)
    grads[:, 3] = 0       # never touched by a gradient: only the decay moves it
    grads[1:, 4] = 0
    # The learning rates are Python doubles in the reference: keep all their bits.
    lr = torch.tensor([initial_lr * m for m in multipliers], dtype=torch.float64)
    tensors = {"param": param, "grads": grads, "lr": lr}
    for dtype, suffix in ((torch.float32, ""), (torch.float64, "64")):
        p = torch.nn.Parameter(param.to(dtype).clone())
        optimizer = optimizer_class([p], **settings)
        rows = {"params": []} | {state: [] for state in states}
        for m, g in zip(multipliers, grads):
            optimizer.param_groups[0]["lr"] = initial_lr * m
            p.grad = g.to(dtype).clone()
            optimizer.step()
            rows["params"].append(p.detach().clone())
            for state in states:
                rows[state].append(optimizer.state[p][state].clone())
        tensors |= {key + suffix: torch.stack(row) for key, row in rows.items()}
    settings = {"name": name, "initial_lr": initial_lr} | {k: v for k, v in settings.items() if k != "lr"}
    save(tensors, path, {"config": json.dumps(settings), "versions": json.dumps(VERSIONS)})


def make_optimizers(out):
    make_optimizer(out / "adamw.safetensors", "decoupled_adamw", DecoupledAdamW, ["exp_avg", "exp_avg_sq"],
                   {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 1e-3})
    make_optimizer(out / "lion.safetensors", "decoupled_lionw", DecoupledLionW, ["exp_avg"],
                   {"lr": 1e-2, "betas": (0.9, 0.99), "weight_decay": 1e-3})


def make_clipping(out):
    """Coefficients of Composer's adaptive clipping: by row of a matrix, by the whole of a vector."""
    generator = torch.Generator().manual_seed(3101)
    tensors = {}
    for name, shape in (("matrix", (7, 5)), ("vector", (11,)), ("cube", (3, 4, 2))):
        weight = torch.randn(shape, generator=generator, dtype=torch.float64)
        gradient = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name == "matrix":
            gradient *= torch.logspace(-3, 3, 7, dtype=torch.float64)[:, None]
            weight[5] = 0           # no weight: its gradient is clipped to nothing
            gradient[0] = 0         # no gradient: left alone
            weight[1], gradient[1] = 0, 0
        coefficient = _get_clipped_gradient_coeff(weight, gradient, clipping_threshold=0.5)
        tensors |= {f"{name}/weight": weight, f"{name}/gradient": gradient, f"{name}/clipped": gradient * coefficient}
    save(tensors, out / "adaptive_clipping.safetensors",
         {"config": json.dumps({"clipping_threshold": 0.5}), "versions": json.dumps(VERSIONS)})


def make_schedules(out):
    """Multipliers of cosine_with_warmup at chosen batches, from Composer's scheduler and its own Time and Timestamp."""
    settings = [  # t_warmup, t_max, alpha_f, max_duration, batches per epoch, sequences per batch, tokens per sequence
        ("100ba", "1dur", 0.1, "4800ba", None, 256, 2048),
        ("100ba", "1dur", 0.1, "24800ba", None, 512, 2048),
        ("0ba", "1dur", 0.0, "20ba", None, 8, 16),
        ("0.1dur", "1dur", 0.0, "50ba", None, 8, 16),
        ("0.3dur", "1dur", 0.25, "7ba", None, 8, 16),
        ("20480tok", "1dur", 0.1, "409600tok", None, 8, 128),
        ("3e3tok", "1dur", 0.1, "1e5tok", None, 8, 128),
        ("10ba", "1dur", 0.1, "2ep", 30, 8, 128),
        ("0.1dur", "1dur", 0.1, "2ep", 33, 8, 128),
        ("1ep", "1dur", 0.1, "3ep", 30, 8, 128),
        ("100sp", "1dur", 0.0, "1000sp", None, 8, 128),
        ("5ba", "60ba", 0.1, "40ba", None, 8, 128),
        ("40ba", "1dur", 0.1, "40ba", None, 8, 128),
    ]
    rows = []
    for t_warmup, t_max, alpha_f, max_duration, epoch, sequences, length in settings:
        duration = Time.from_timestring(max_duration)
        per_batch = {TimeUnit.BATCH: 1, TimeUnit.TOKEN: sequences * length, TimeUnit.SAMPLE: sequences}
        total = duration.value * epoch if duration.unit == TimeUnit.EPOCH else \
            math.ceil(duration.value / per_batch[duration.unit])
        scheduler = CosineAnnealingWithWarmupScheduler(t_warmup=t_warmup, t_max=t_max, alpha_f=alpha_f)
        chosen = sorted(set(range(total + 1)) if total <= 100 else
                        {0, 1, 2, 50, 99, 100, 101, 102, total // 3, total // 2, total - 2, total - 1, total} |
                        set(random.Random(4001).sample(range(total), 25)))
        points = []
        for b in chosen:
            timestamp = Timestamp(epoch=b // epoch if epoch else 0, batch=b, sample=b * sequences,
                                  token=b * sequences * length)
            state = types.SimpleNamespace(max_duration=duration, timestamp=timestamp, dataloader_len=epoch)
            points.append([b, scheduler(state)])
        rows.append({"t_warmup": t_warmup, "t_max": t_max, "alpha_f": alpha_f, "max_duration": max_duration,
                     "batches_per_epoch": epoch, "samples_per_batch": sequences, "tokens_per_sample": length,
                     "batch_and_multiplier": points})
    refused = []
    for t_warmup, t_max, max_duration in (("10ba", "30ba", "40ba"), ("10ba", "1dur", "4096tok"),
                                          ("10tok", "1dur", "40ba")):
        scheduler = CosineAnnealingWithWarmupScheduler(t_warmup=t_warmup, t_max=t_max)
        state = types.SimpleNamespace(max_duration=Time.from_timestring(max_duration), timestamp=Timestamp(),
                                      dataloader_len=None)
        try:
            scheduler(state)
        except ValueError as error:
            refused.append({"t_warmup": t_warmup, "t_max": t_max, "max_duration": max_duration, "why": str(error)})
        else:
            raise AssertionError(f"not refused: {t_warmup} {t_max} {max_duration}")
    write_json(out / "cosine_with_warmup.json", {"versions": VERSIONS, "accepted": rows, "refused": refused})


def make_other_schedules(out):
    """The same for the other schedulers: every batch of short runs."""
    linear, constant, root = LinearWithWarmupScheduler, ConstantWithWarmupScheduler, InverseSquareRootWithWarmupScheduler
    names = {linear: "linear_decay_with_warmup", constant: "constant_with_warmup", root: "inv_sqrt_with_warmup"}
    settings = [  # scheduler, its arguments, max_duration, batches per epoch
        (linear, {"t_warmup": "10ba", "alpha_i": 0.8, "alpha_f": 0.2}, "40ba", None),
        (linear, {"t_warmup": "0.1dur"}, "2ep", 33),
        (linear, {"t_warmup": "2e3tok", "t_max": "1dur", "alpha_f": 0.1}, "4e4tok", None),
        (linear, {"t_warmup": "100sp", "t_max": "400sp", "alpha_f": 0.5}, "320sp", None),
        (linear, {"t_warmup": "40ba"}, "40ba", None),
        (constant, {"t_warmup": "7ba", "alpha": 0.5}, "20ba", None),
        (constant, {"t_warmup": "1ep"}, "3ep", 10),
        (constant, {"t_warmup": "0ba", "alpha": 2.0}, "5ba", None),
        (root, {"t_warmup": "10ba", "t_scale": "10ba", "t_cooldown": "5ba"}, "60ba", None),
        (root, {"t_warmup": "10ba", "t_scale": "25ba", "t_cooldown": "20ba", "alpha_f_decay": 0.2,
                "alpha_f_cooldown": 0.1}, "60ba", None),
        (root, {"t_warmup": "4e3tok", "t_scale": "9e3tok", "t_cooldown": "1e4tok", "t_max": "5e4tok"}, "4e4tok", None),
        (root, {"t_warmup": "10ba", "t_scale": "10ba", "t_cooldown": "0ba"}, "30ba", None),
        (root, {"t_warmup": "20ba", "t_scale": "5ba", "t_cooldown": "20ba", "alpha_f_decay": 0.3}, "30ba", None),
        (root, {"t_warmup": "1ep", "t_scale": "2ep", "t_cooldown": "1ep"}, "5ep", 9),
        (root, {"t_warmup": "0ba", "t_scale": "10ba", "t_cooldown": "5ba", "t_max": "50ba"}, "30ba", None),
    ]
    sequences, length = 8, 128
    rows = []
    for kind, arguments, max_duration, epoch in settings:
        duration = Time.from_timestring(max_duration)
        per_batch = {TimeUnit.BATCH: 1, TimeUnit.TOKEN: sequences * length, TimeUnit.SAMPLE: sequences}
        total = duration.value * epoch if duration.unit == TimeUnit.EPOCH else \
            math.ceil(duration.value / per_batch[duration.unit])
        scheduler = kind(**arguments)
        points = []
        for b in range(total + 1):
            timestamp = Timestamp(epoch=b // epoch if epoch else 0, batch=b, sample=b * sequences,
                                  token=b * sequences * length)
            points.append(scheduler(types.SimpleNamespace(max_duration=duration, timestamp=timestamp,
                                                          dataloader_len=epoch)))
        rows.append({"scheduler": {"name": names[kind]} | arguments, "max_duration": max_duration,
                     "batches_per_epoch": epoch, "samples_per_batch": sequences, "tokens_per_sample": length,
                     "multipliers": points})
    refused = []
    for arguments, max_duration in (
            ({"t_warmup": "0.1dur", "t_scale": "10ba", "t_cooldown": "5ba"}, "40ba"),
            ({"t_warmup": "10ba", "t_scale": "10tok", "t_cooldown": "5ba"}, "40ba"),
            ({"t_warmup": "10ba", "t_scale": "10ba", "t_cooldown": "5ba", "alpha_f_decay": 0.1,
              "alpha_f_cooldown": 0.2}, "40ba")):
        try:
            root(**arguments)(types.SimpleNamespace(max_duration=Time.from_timestring(max_duration),
                                                    timestamp=Timestamp(), dataloader_len=None))
        except ValueError as error:
            refused.append({"scheduler": {"name": names[root]} | arguments, "max_duration": max_duration,
                            "why": str(error)})
        else:
            raise AssertionError(f"not refused: {arguments}")
    write_json(out / "schedules.json", {"versions": VERSIONS, "accepted": rows, "refused": refused})


def make_callbacks(out):
    """When Composer's EarlyStopper stops, and when LLM Foundry's KillLossSpike raises, on given series."""
    rng = random.Random(5001)
    stops = []
    # The sense of LanguageCrossEntropy is given: Composer takes what is not called loss, error or perplexity for an
    # accuracy.
    for monitor, comp, patience, min_delta, every in (
            ("LanguageCrossEntropy", "less", "3ba", 0.0, 1), ("LanguageCrossEntropy", "lt", "6ba", 0.05, 1),
            ("LanguagePerplexity", None, "10ba", 0.1, 4), ("TokenAccuracy", None, "1ep", 0.0, 5),
            ("TokenAccuracy", "gt", "9ba", -0.01, 2), ("LanguagePerplexity", None, 2, 0.0, 5)):
        for _ in range(4):
            stopper = EarlyStopper(monitor, "eval", comp, patience=patience, min_delta=min_delta)
            values, stopped = [], None
            for batch in range(every, 200, every):
                values.append(5 * math.exp(-batch / 20) + rng.random() * 0.3)
                if monitor == "TokenAccuracy":
                    values[-1] = 1 - values[-1] / 6
                stop = []
                stopper.eval_end(types.SimpleNamespace(
                    dataloader_label="eval", timestamp=Timestamp(epoch=batch // 5, batch=batch),
                    eval_metrics={"eval": {monitor: types.SimpleNamespace(compute=lambda: torch.tensor(
                        values[-1], dtype=torch.float64))}}, stop_training=lambda: stop.append(1)), None)
                if stop:
                    stopped = batch
                    break
            stops.append({"monitor": monitor, "comp": comp, "patience": patience, "min_delta": min_delta, "eval_every": every,
                          "batches_per_epoch": 5, "values": values, "stops_at": stopped})
    spikes = []
    # The window's size is left alone: a window that is given never forgets in LLM Foundry, and is looked at once.
    for settings, duration, shape in (
            ({}, "4000ba", "spike"), ({"patience": 1, "outlier_multiplier": 1.5}, "600ba", "spike"),
            ({"patience": 2}, "3000ba", "blip"), ({"patience": 1}, "3000ba", "blip"), ({"loss_cap": 3}, "600ba", "plateau"),
            ({"loss_cap": 3}, "3000ba", "plateau"), ({}, "600ba", "plateau"), ({}, "600ba", "fall")):
        monitor = KillLossSpike(log_only=False, **settings)
        total = int(duration[:-2])
        losses, raised = [], None
        for batch in range(1, min(total, 420) + 1):
            base = {"spike": 3.0, "blip": 3.0, "plateau": 3.5 if batch > 20 else 3.2, "fall": 5 * math.exp(-batch / 30)}[
                shape] * (1 + 0.02 * rng.random())
            if shape == "spike" and batch > total // 2 or shape == "spike" and batch > 300:
                base *= 4
            if shape == "blip" and batch % 20 in (1, 2):
                base *= 3
            losses.append(base)
            try:
                monitor.batch_end(types.SimpleNamespace(
                    loss=torch.tensor(base, dtype=torch.float64), max_duration=Time.from_timestring(duration),
                    timestamp=Timestamp(batch=batch, token=batch * 10), dataloader_len=None), None)
            except (LossSpikeError, HighLossError) as error:
                raised = {"batch": batch, "kind": type(error).__name__}
                break
        spikes.append({"settings": settings, "max_duration": duration, "losses": losses, "raised": raised})
    write_json(out / "callbacks.json", {"versions": VERSIONS, "early_stopper": stops, "kill_loss_spike": spikes})


def make_slopes(out, expected):
    slopes = {str(h): gen_slopes(h, 8, return_1d=True).double().tolist() for h in range(1, 65)}
    if expected:
        for key, values in json.loads(pathlib.Path(expected).read_text()).items():
            heads, most = (int(part.split("=")[1]) for part in key.split(","))
            mine = gen_slopes(heads, most, return_1d=True).double().tolist()
            assert len(mine) == len(values) and all(abs(a / b - 1) < 2e-7 for a, b in zip(mine, values)), key
        print(f"alibi slopes agree with {pathlib.Path(expected).name}")
    write_json(out / "alibi_slopes.json", {"versions": VERSIONS, "alibi_bias_max": 8, "slopes": slopes})


INITS = {  # what init_config says -> other options of the model
    "default": ({}, {}),
    "untied_glu": ({}, {"tie_word_embeddings": False, "ffn_config": {"ffn_type": "mptglu"}, "no_bias": True}),
    "default_": ({"name": "default_", "emb_init_std": 0.5}, {"tie_word_embeddings": False}),
    "baseline_": ({"name": "baseline_", "init_std": 0.03}, {}),
    "kaiming_uniform_fan_out": ({"name": "kaiming_uniform_", "fan_mode": "fan_out", "init_nonlinearity": "tanh"}, {}),
    "kaiming_normal_fan_out": ({"name": "kaiming_normal_", "fan_mode": "fan_out"}, {"tie_word_embeddings": False}),
    "kaiming_leaky": ({"name": "kaiming_uniform_", "init_nonlinearity": "leaky_relu", "init_gain": 2.0}, {}),
    "kaiming_selu": ({"name": "kaiming_normal_", "init_nonlinearity": "selu", "init_div_is_residual": False}, {}),
    "kaiming_linear": ({"name": "kaiming_normal_", "init_nonlinearity": "linear", "init_div_is_residual": 3.0}, {}),
    "neox_init_": ({"name": "neox_init_"}, {}),
    "small_init_": ({"name": "small_init_", "emb_init_std": 0.125}, {}),
    "xavier_uniform_": ({"name": "xavier_uniform_", "init_gain": 1.5, "emb_init_uniform_lim": 0.25}, {}),
    "xavier_normal_": ({"name": "xavier_normal_", "init_gain": 1.0, "emb_init_uniform_lim": [-0.5, 1.0]}, {}),
}


def make_init(out):
    """Statistics of LLM Foundry's initialisations: per tensor root mean square, least and largest value over the seeds.
    `apply(param_init_fn)` is what its trainer does with `init_device: meta`; without it lm_head would keep torch's."""
    rows, seeds = {}, 8
    for label, (init, more) in INITS.items():
        config = mpt(128, 4, 3, 192, 64, init_config=init, **more)
        squares, values = {}, {}
        for seed in range(seeds):
            torch.manual_seed(seed)
            model = build_foundry(config)
            model.apply(model.param_init_fn)
            for name, p in model.named_parameters():
                if "blocks." in name and ".0." not in name:
                    continue  # all blocks are alike
                p = p.detach().double()
                squares[name] = squares.get(name, 0.0) + p.square().sum().item()
                least, largest = values.get(name, (math.inf, -math.inf))
                values[name] = (min(least, p.min().item()), max(largest, p.max().item()))
        rows[label] = {"config": config, "tensors": {
            n: {"rms": math.sqrt(squares[n] / (seeds * model.get_parameter(n).numel())), "least": values[n][0],
                "largest": values[n][1], "values": seeds * model.get_parameter(n).numel()} for n in sorted(squares)}}
    write_json(out / "init.json", {"versions": VERSIONS, "seeds": seeds, "cases": rows})


def make_counts(out):
    """Parameter counts of the sizes, counted on LLM Foundry's own model on the meta device, in both forms."""
    sizes = {"125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24), "1b": (2048, 16, 24),
             "3b": (2560, 20, 32), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 56, 48),
             "70b": (8192, 64, 80)}
    rows = {}
    for name, (d, heads, layers) in sizes.items():
        count = lambda vocab, attn, **more: sum(p.numel() for p in build_foundry(  # noqa: E731
            mpt(d, heads, layers, vocab, 2048, attn, init_device="meta", **more)).parameters())
        rows[name] = {"d_model": d, "n_heads": heads, "n_layers": layers, "max_seq_len": 2048,
                      "form_a_vocab_50368": count(50368, {}),
                      "form_b_vocab_50432": count(50432, {"alibi": True}, no_bias=True)}
    # Each golden model and its active parameters: what LLM Foundry's FLOPs count.
    options = {}
    for case in CASES:
        causal = (build_megablocks if case.source == "megablocks" else build_foundry)(case.config)
        # what ComposerMPTCausalLM offers these functions
        model = types.SimpleNamespace(model=causal, config=causal.config, parameters=causal.parameters)
        # It leaves the experts that a token does not use out of the count in models of MegaBlocks; here in all.
        ffn_config = case.config.get("ffn_config", {})
        experts = [p.numel() for n, p in causal.named_parameters() if ".experts.mlp." in n]
        unused = 1 - ffn_config["moe_top_k"] / ffn_config["moe_num_experts"] if experts else 0
        options[case.name] = {"total": mpt_get_total_params(model),
                              "active": mpt_get_active_params(model) - round(sum(experts) * unused)}
    write_json(out / "parameter_counts.json", {"versions": VERSIONS, "sizes": rows, "golden_models": options})


def write_json(path, value):
    path.write_text(json.dumps(value, separators=(",", ":")).replace('},"', '},\n"').replace("},{", "},\n{") + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "golden")
    parser.add_argument("--expected-slopes", help="a JSON file {'n_heads=H,alibi_bias_max=M': [...]} to compare with")
    parser.add_argument("--only", help="make only this model, e.g. b1")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    summary = {"versions": VERSIONS, "foundry_and_transformers_differ_by": compare_programs(), "models": {}}
    print(f"LLM Foundry and transformers agree on b2 in fp64: {summary['foundry_and_transformers_differ_by']:.1e}")
    for case in CASES:
        if args.only in (None, case.name):
            summary["models"][case.name] = make_model(case, args.out)
            print(case.name, json.dumps(summary["models"][case.name]))
    if args.only is None:
        write_json(args.out / "summary.json", summary)
        make_optimizers(args.out)
        make_clipping(args.out)
        make_schedules(args.out)
        make_other_schedules(args.out)
        make_callbacks(args.out)
        make_slopes(args.out, args.expected_slopes)
        make_init(args.out)
        make_counts(args.out)


if __name__ == "__main__":
    main()
