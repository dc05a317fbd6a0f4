"""Configuration of an MPT in any form that ParallelLM trains; names as in LLM Foundry's YAMLs."""

from transformers import PretrainedConfig

ATTENTION = {
    "attn_type": "multihead_attention", "kv_n_heads": None, "clip_qkv": None, "fused_qkv": True, "qk_ln": False,
    "qk_gn": False, "norm_type": "low_precision_layernorm", "softmax_scale": None, "attn_logit_softcapping": None,
    "sliding_window_size": -1, "alibi": False, "alibi_bias_max": 8, "rope": False, "rope_theta": 10000,
    "rope_impl": "hf", "rope_hf_config": {"type": "no_scaling"}, "rope_dail_config": {"type": "original"},
    "nope": False, "reuse_kv_layer_idx": None, "attn_pdrop": 0.0, "qk_norm_eps": 1e-5, "rotary_dim": None,
}
TEMPERATURE = {"floor_scale": 8192, "attn_scale": 0.0}


class ParallelMptConfig(PretrainedConfig):
    model_type = "parallel_mpt"
    attribute_map = {"hidden_size": "d_model", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers",
                     "max_position_embeddings": "max_seq_len"}
    keys_to_ignore_at_inference = ["past_key_values", "cache"]

    def __init__(self, d_model=2048, n_heads=16, n_layers=24, expansion_ratio=4, max_seq_len=2048, vocab_size=50368,
                 learned_pos_emb=True, no_bias=False, attention_bias=None, norm_type="low_precision_layernorm",
                 norm_eps=1e-5, logit_scale=None, final_logit_softcapping=None, ffn_config=None, attn_config=None,
                 block_overrides=None, embedding_fraction=1.0, emb_pdrop=0.0, resid_pdrop=0.0,
                 tie_word_embeddings=True, use_cache=True, head_dim=None, out_proj_bias=None, parallel_residual=False,
                 norm_bias=None, branch_norms="input", norm_unit_offset=False, embedding_scale=1.0, residual_scale=1.0,
                 **others):
        self.d_model, self.n_heads, self.n_layers = d_model, n_heads, n_layers
        self.expansion_ratio, self.max_seq_len, self.vocab_size = expansion_ratio, max_seq_len, vocab_size
        self.learned_pos_emb, self.no_bias, self.attention_bias = learned_pos_emb, no_bias, attention_bias
        self.norm_type, self.norm_eps = norm_type, norm_eps
        self.head_dim = d_model // n_heads if head_dim is None else head_dim
        self.out_proj_bias = not no_bias if out_proj_bias is None else out_proj_bias
        self.parallel_residual = parallel_residual
        self.norm_bias = not no_bias if norm_bias is None else norm_bias
        self.branch_norms, self.norm_unit_offset = branch_norms, norm_unit_offset
        self.embedding_scale, self.residual_scale = embedding_scale, residual_scale
        self.logit_scale, self.final_logit_softcapping = logit_scale, final_logit_softcapping
        self.ffn_config, self.attn_config = ffn_config or {}, attn_config or {}
        self.block_overrides, self.embedding_fraction = block_overrides, embedding_fraction
        self.emb_pdrop, self.resid_pdrop = emb_pdrop, resid_pdrop
        super().__init__(tie_word_embeddings=tie_word_embeddings, **others)
        self.use_cache = use_cache

    def attention_of_layers(self):
        """attn_config of every layer, with what block_overrides changes and the defaults of the rest."""
        changes = [{}] * self.n_layers
        if self.block_overrides:
            named = self.block_overrides["overrides"]
            changes = [{} if item["name"] == "default" else named[item["name"]].get("attn_config", {})
                       for item in self.block_overrides["order"] for _ in range(item.get("repeat", 1))]
        layers = []
        for changed in changes:
            layer = ATTENTION | self.attn_config | changed
            if "rope_theta" in changed:
                layer["rope_hf_config"] = {"type": "no_scaling"}
            layer["attn_temperature_tuning"] = TEMPERATURE | (
                self.attn_config.get("attn_temperature_tuning") or {}) | (changed.get("attn_temperature_tuning") or {})
            if layer["attn_type"] == "multiquery_attention":
                layer["kv_n_heads"] = 1
            layers.append(layer)
        return layers
