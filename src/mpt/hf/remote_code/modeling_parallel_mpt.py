"""An MPT in any form that ParallelLM trains, for inference and finetuning with transformers."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from transformers import DynamicCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from .configuration_parallel_mpt import ParallelMptConfig


def widened(x):
    """At least fp32, in which norms, angles and probabilities are computed."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class Norm(nn.Module):
    def __init__(self, width, kind, biased, eps, offset):
        super().__init__()
        self.rms, self.eps, self.offset = "rms" in kind, eps, offset
        self.weight = nn.Parameter(torch.full((width,), 1.0 - offset))
        self.register_parameter("bias", nn.Parameter(torch.zeros(width)) if biased and not self.rms else None)

    def forward(self, x):
        wide, weight = widened(x), widened(self.weight) + self.offset
        if self.rms:
            return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps) * weight).to(x.dtype)
        bias = None if self.bias is None else widened(self.bias)
        return F.layer_norm(wide, weight.shape, weight, bias, self.eps).to(x.dtype)


def model_norm(config):
    return Norm(config.d_model, config.norm_type, config.norm_bias, config.norm_eps, config.norm_unit_offset)


def activation_of(ffn):
    megablocks = ffn.get("ffn_type") in ("mb_dmoe", "mb_moe")
    chosen = ffn.get("ffn_act_fn") or {"name": "gelu", "approximate": "tanh" if megablocks else "none"}
    approximate = chosen.get("approximate", "none")
    return {"gelu": lambda x: F.gelu(x, approximate=approximate), "silu": F.silu, "relu": F.relu,
            "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x)}[chosen["name"]]


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        d, biased, ffn = config.d_model, not config.no_bias, config.ffn_config
        hidden = ffn.get("ffn_hidden_size") or round(config.expansion_ratio * d)
        gated = ffn.get("ffn_type") == "mptglu" or ffn.get("mlp_type") == "glu"
        self.act = activation_of(ffn)
        self.fused = ffn.get("fused_gate", False)
        if self.fused:
            self.gate_up_proj = nn.Linear(d, 2 * hidden, biased)
        else:
            self.up_proj = nn.Linear(d, hidden, biased)
        self.gate_proj = nn.Linear(d, hidden, biased) if gated and not self.fused else None
        self.down_proj = nn.Linear(hidden, d, biased)

    def forward(self, x):
        if self.fused:
            gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
            return self.down_proj(self.act(gate) * up)
        if self.gate_proj is None:
            return self.down_proj(self.act(self.up_proj(x)))
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


class Mixture(nn.Module):
    """Experts, of which a router chooses some for each token. Expert e has rows [e h, (e + 1) h) of each matrix."""

    def __init__(self, config):
        super().__init__()
        self.ffn, d = config.ffn_config, config.d_model
        hidden = self.ffn.get("moe_hidden_size") or self.ffn.get("ffn_hidden_size") or round(config.expansion_ratio * d)
        names = ("w1", "v1", "w2") if self.ffn.get("mlp_type") == "glu" else ("w1", "w2")
        matrices = lambda rows: nn.ParameterDict({name: nn.Parameter(torch.empty(rows, d)) for name in names})
        self.act, self.count = activation_of(self.ffn), self.ffn["moe_num_experts"]
        self.router = nn.ModuleDict({"layer": nn.Linear(d, self.count, bias=False)})
        if self.ffn.get("moe_bias_update_rate"):
            self.router.register_parameter("expert_bias", nn.Parameter(torch.zeros(self.count)))
        self.knows_loads = self.ffn.get("moe_balance_set") == "global_batch" and self.ffn.get("moe_loss_weight") and not self.ffn.get("moe_joined_loss")
        if self.knows_loads:  # the choices of the last training batch
            self.router.register_parameter("expert_loads", nn.Parameter(torch.zeros(self.count), requires_grad=False))
        self.experts = nn.Module()
        self.experts.mlp = matrices(self.count * hidden)
        if not config.no_bias and self.ffn["ffn_type"] != "torch_dmoe":
            self.experts.bias = nn.Parameter(torch.zeros(d))
        if self.ffn.get("shared_expert"):
            self.shared_expert = matrices(self.ffn["shared_expert_hidden_size"])
        if self.ffn.get("moe_shared_gate"):
            self.shared_expert_gate = nn.Linear(d, 1, bias=False)

    def expert(self, x, matrices, number=0, count=1):
        part = {name: matrix.chunk(count)[number] for name, matrix in matrices.items()}
        hidden = self.act(x @ part["w1"].T)
        return (hidden * (x @ part["v1"].T) if "v1" in part else hidden) @ part["w2"]

    def route(self, x):
        """The weights and the numbers of each token's experts, and whether they take it: [batch, length, top_k, count]."""
        ffn = self.ffn
        if self.training and ffn.get("moe_jitter_eps"):
            x = x * (1 + ffn["moe_jitter_eps"] * (2 * torch.rand_like(x) - 1))
        logits = F.linear(widened(x), widened(self.router["layer"].weight))
        scores = logits.softmax(dim=-1)
        biased = scores + self.router.expert_bias if ffn.get("moe_bias_update_rate") else scores
        chosen = biased.topk(ffn["moe_top_k"], dim=-1).indices
        weights = scores.gather(-1, chosen)
        if ffn.get("moe_normalize_expert_weights"):
            weights = weights / weights.norm(p=ffn["moe_normalize_expert_weights"], dim=-1, keepdim=True)
        if ffn.get("uniform_expert_assignment"):
            chosen = torch.arange(chosen.numel(), device=x.device).view_as(chosen) % self.count
        taken = F.one_hot(chosen, self.count)
        counts = taken.sum(2).to(scores.dtype)
        if self.knows_loads:
            loads = widened(self.router.expert_loads)
            counts = (loads / loads.sum() if loads.any() else torch.full_like(loads, 1 / self.count)).mul(ffn["moe_top_k"]).expand_as(counts)
        self.routed = logits, scores, counts
        if ffn.get("moe_capacity_factor"):  # in each sequence, in order of position
            room = max(1, int(ffn["moe_capacity_factor"] * x.shape[1] * ffn["moe_top_k"] / self.count))
            taken = taken * (taken.sum(2).cumsum(1) <= room)[:, :, None]
        return weights.to(x.dtype), taken

    def forward(self, x):
        weights, taken = self.route(x)
        y = torch.zeros_like(x)
        for number in range(self.count):
            row, position, choice = taken[..., number].nonzero(as_tuple=True)
            result = self.expert(x[row, position], self.experts.mlp, number, self.count)
            y = y.index_put((row, position), result * weights[row, position, choice, None], accumulate=True)
        if hasattr(self, "shared_expert"):
            shared = self.expert(x, self.shared_expert)
            gate = torch.sigmoid(self.shared_expert_gate(x)) if hasattr(self, "shared_expert_gate") else 1
            y = y + gate * shared
        return y + self.experts.bias if hasattr(self.experts, "bias") else y


def router_losses(config, mixtures, tokens):
    """The balancing loss and the z-loss of the last pass, as means over the labels, of which each sequence has `tokens`."""
    if not mixtures:
        return 0.0
    ffn = config.ffn_config
    logits, scores, chosen = (torch.stack(parts) for parts in zip(*(mixture.routed for mixture in mixtures)))
    share = tokens.to(scores) / tokens.sum().clamp(min=1)
    joined, by_sequence = ffn.get("moe_joined_loss"), ffn.get("moe_balance_set", "microbatch") != "microbatch"
    means = (0, 1, 2) if joined else 2 if by_sequence else (1, 2)
    products = (chosen.mean(means) * scores.mean(means)).sum(-1)
    balance = products if joined else (products @ share if by_sequence else products).sum() / config.n_layers / ffn["moe_top_k"]
    z = (logits.logsumexp(-1).square().mean(2) @ share).sum()
    return ffn.get("moe_loss_weight", 0) * ffn["moe_num_experts"] * balance + ffn.get("moe_zloss_weight", 0) * z


def alibi_slopes(heads, bias_max):
    power = 2 ** math.ceil(math.log2(heads))
    slopes = [2 ** (-i * bias_max / power) for i in range(1, power + 1)]
    return torch.tensor(slopes if power == heads else (slopes[1::2] + slopes[::2])[:heads])


def yarn_kept_shares(theta, scaling, dim):
    """YaRN: the share of each frequency that is kept, from 1 for pairs that turn often to 0 for those that do not."""
    trained = scaling["original_max_position_embeddings"]
    low, high = (dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))
                 for turns in (scaling["beta_fast"], scaling["beta_slow"]))
    if scaling["truncate"]:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high += 0.001 if low == high else 0
    return 1 - ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)


def rotation(config, attn, positions):
    """Cosines and sines of the pairs of a head, for queries and for keys: [batch, 1, length, pairs] each."""
    dim = attn["rotary_dim"] or config.head_dim
    pair = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / dim
    frequency = attn["rope_theta"] ** -pair
    scaling = attn["rope_hf_config"] if attn["rope_impl"] == "hf" else {"type": "no_scaling"}
    if scaling["type"] == "linear":
        frequency = frequency / scaling["factor"]
    elif scaling["type"] == "llama3":
        turns = scaling["original_max_position_embeddings"] * frequency / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        frequency = frequency * (kept + (1 - kept) / scaling["factor"])
    elif scaling["type"] == "yarn":
        kept = yarn_kept_shares(attn["rope_theta"], scaling, dim).to(pair)
        frequency = frequency * (kept + (1 - kept) / scaling["factor"])
    scale = 1.0
    if scaling["type"] == "longrope":
        is_long = int(positions.max()) >= scaling["original_max_position_embeddings"]
        factors = scaling["long_factor" if is_long else "short_factor"]
        frequency = frequency / torch.tensor(factors, dtype=pair.dtype, device=pair.device)
        scale = scaling["attention_factor"]
    at = positions[:, None, :, None].double()
    tables = scale * torch.cos(at * frequency), scale * torch.sin(at * frequency)
    growth = torch.ones_like(tables[0])
    dail = attn["rope_dail_config"]
    if attn["rope_impl"] == "dail" and dail["type"] == "xpos":
        growth = ((pair + 0.4) / 1.4) ** ((at - config.max_seq_len // 2) / dail.get("xpos_scale_base", 512))
    return [table * growth for table in tables], [table / growth for table in tables]


def kind_of_rotation(attn):
    """That which layers with the same rotation have in common."""
    return attn["rope_theta"], attn["rope_hf_config"]["type"]


def rotated(x, tables):
    cosine, sine = (table.to(widened(x).dtype) for table in tables)
    turned = 2 * cosine.shape[-1]
    low, high = widened(x[..., :turned]).chunk(2, dim=-1)
    parts = [low * cosine - high * sine, high * cosine + low * sine, widened(x[..., turned:])]
    return torch.cat(parts, dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Makes keys and values, or attends to those of an earlier layer."""

    def __init__(self, config, layer, attn, source):
        super().__init__()
        self.layer, self.source, self.attn = layer, source, attn
        self.dim = config.head_dim
        self.heads, self.kv_heads = config.n_heads, attn["kv_n_heads"] or config.n_heads
        self.scale = attn["softmax_scale"] if attn["softmax_scale"] is not None else self.dim ** -0.5
        if attn["rope"] and attn["rope_impl"] == "hf" and not attn["nope"]:  # YaRN's factor on queries and on keys
            if attn["rope_hf_config"]["type"] == "yarn":
                self.scale *= attn["rope_hf_config"]["attention_factor"] ** 2
        d, width, kv = config.d_model, self.heads * self.dim, self.kv_heads * self.dim
        biased = config.attention_bias if config.attention_bias is not None else not config.no_bias
        own = source == layer
        if own and attn["fused_qkv"]:
            self.Wqkv = nn.Linear(d, width + 2 * kv, biased)
        else:
            self.Wq = nn.Linear(d, width, biased)
            if own:
                self.Wk, self.Wv = nn.Linear(d, kv, biased), nn.Linear(d, kv, biased)
        if attn["qk_ln"] or attn["qk_gn"]:
            make = lambda width: Norm(self.dim if attn["qk_gn"] else width, attn["norm_type"], config.norm_bias,
                                      attn["qk_norm_eps"], config.norm_unit_offset)
            self.q_ln = make(width)
            if own:
                self.k_ln = make(kv)
        self.out_proj = nn.Linear(width, d, config.out_proj_bias)

    def project(self, x):
        """Queries, and keys and values if they are made here: [batch, length, width]."""
        if hasattr(self, "Wqkv"):
            kv = self.kv_heads * self.dim
            parts = self.Wqkv(x).split([self.heads * self.dim, kv, kv], dim=-1)
        else:
            parts = [getattr(self, name)(x) for name in ("Wq", "Wk", "Wv") if hasattr(self, name)]
        clip = self.attn["clip_qkv"]
        return [part.clamp(-clip, clip) if clip else part for part in parts]

    def by_head(self, x, norm=None):
        if norm is not None and not self.attn["qk_gn"]:
            x = norm(x)
        x = x.unflatten(-1, (-1, self.dim)).transpose(1, 2)
        return norm(x) if norm is not None and self.attn["qk_gn"] else x

    def forward(self, x, place, made, cache):
        q, *kv = self.project(x)
        q = self.by_head(q, getattr(self, "q_ln", None))
        temperature = self.attn["attn_temperature_tuning"]
        if temperature["attn_scale"]:
            steps = torch.floor((place.in_document + 1) / temperature["floor_scale"])
            q = (q * (1 + temperature["attn_scale"] * torch.log(steps + 1))[:, None, :, None]).to(q.dtype)
        turn = self.attn["rope"] and not self.attn["nope"]
        if turn:
            q = rotated(q, place.rotations[kind_of_rotation(self.attn)][0])
        if kv:
            k, v = self.by_head(kv[0], getattr(self, "k_ln", None)), self.by_head(kv[1])
            if turn:
                k = rotated(k, place.rotations[kind_of_rotation(self.attn)][1])
            made[self.layer] = cache.update(k, v, self.layer) if cache is not None else (k, v)
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=1) for part in made[self.source])
        scores = widened(q @ k.transpose(-1, -2)) * self.scale
        cap = self.attn["attn_logit_softcapping"]
        if cap:
            scores = cap * torch.tanh(scores / cap)
        distance = place.distance[:, None]
        if self.attn["alibi"] and not self.attn["nope"]:
            slopes = alibi_slopes(self.heads, self.attn["alibi_bias_max"]).to(scores)
            scores = scores - slopes[:, None, None] * distance
        seen = place.seen[:, None]
        if self.attn["sliding_window_size"] >= 0:
            seen = seen & (distance <= self.attn["sliding_window_size"])
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        chances = F.dropout(scores.softmax(dim=-1), self.attn["attn_pdrop"], self.training)
        values = chances.to(v.dtype) @ v
        return self.out_proj(values.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, config, layer, attn, source):
        super().__init__()
        self.attn = Attention(config, layer, attn, source)
        ffn = config.ffn_config
        has_experts = "moe_num_experts" in ffn and layer not in ffn.get("moe_dense_layers", ())
        self.ffn = Mixture(config) if has_experts else FeedForward(config)
        norms = {"input": ["norm"], "output": ["post_norm"], "both": ["norm", "post_norm"]}[config.branch_norms]
        for name in norms:
            setattr(self, f"{name}_1", model_norm(config))
            setattr(self, f"{name}_2", model_norm(config))
        self.drop = nn.Dropout(config.resid_pdrop)
        self.parallel_residual, self.residual_scale = config.parallel_residual, config.residual_scale

    def branch(self, number, layer, x):
        x = layer(getattr(self, f"norm_{number}", nn.Identity())(x))
        return self.drop(getattr(self, f"post_norm_{number}", nn.Identity())(x) * self.residual_scale)

    def forward(self, x, place, made, cache):
        after_attention = x + self.branch(1, lambda normed: self.attn(normed, place, made, cache), x)
        return after_attention + self.branch(2, self.ffn, x if self.parallel_residual else after_attention)


class Place:
    """The positions of the new tokens and of all keys: the same in every layer."""

    def __init__(self, config, layers, ids, attention_mask, sequence_id, past):
        attn = layers[0]
        batch, length = ids.shape
        if attention_mask is None:
            attention_mask = torch.ones(batch, past + length, device=ids.device)
        present = attention_mask.bool()
        keys = (present.long().cumsum(-1) - 1).clamp(min=0)  # padding counts for nothing
        self.positions = keys[:, -length:]
        self.in_document = self.positions
        self.distance = self.positions[:, :, None] - keys[:, None, :]
        self.seen = (self.distance >= 0) & present[:, None, :]
        if sequence_id is not None:
            if past:
                raise ValueError("sequence_id is for whole sequences, not for continuing a cached one")
            self.seen = self.seen & (sequence_id[:, :, None] == sequence_id[:, None, :])
            begins = F.pad(sequence_id[:, 1:] != sequence_id[:, :-1], (1, 0)) * self.positions
            self.in_document = self.positions - begins.cummax(dim=-1).values
        scaling = attn["rope_hf_config"]["type"] if attn["rope"] and attn["rope_impl"] == "hf" else None
        if (config.learned_pos_emb or scaling == "dynamic") and past + length > config.max_seq_len:
            if int(self.positions.max()) >= config.max_seq_len:
                raise ValueError(f"the sequence is longer than max_seq_len {config.max_seq_len} of this model")
        trained = attn["rope_hf_config"].get("original_max_position_embeddings", 0)
        if scaling == "longrope" and 0 < past <= trained < past + length:
            raise ValueError(f"the text outgrows the {trained} positions trained on, where cached keys no longer fit; "
                             "generate with use_cache=False")
        self.rotations = {kind_of_rotation(layer): rotation(config, layer, self.positions)
                          for layer in layers if layer["rope"]}


class ParallelMptPreTrainedModel(PreTrainedModel):
    config_class = ParallelMptConfig
    base_model_prefix = "transformer"
    _no_split_modules = ["Block"]
    _skip_keys_device_placement = ["past_key_values", "cache"]


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.d_model)
        if config.learned_pos_emb:
            self.wpe = nn.Embedding(config.max_seq_len, config.d_model)
        blocks, sources = [], []
        for layer, attn in enumerate(config.attention_of_layers()):
            back = attn["reuse_kv_layer_idx"]
            sources.append(layer if back is None else sources[layer + back])
            blocks.append(Block(config, layer, attn, sources[layer]))
        self.blocks = nn.ModuleList(blocks)
        self.norm_f = model_norm(config)


class ParallelMptForCausalLM(ParallelMptPreTrainedModel, GenerationMixin):
    def __init__(self, config):
        super().__init__(config)
        self.transformer = Transformer(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.transformer.wte

    def set_input_embeddings(self, value):
        self.transformer.wte = value

    def get_output_embeddings(self):  # a tied head is no module of its own
        return getattr(self, "lm_head", None)

    def forward(self, input_ids, attention_mask=None, past_key_values=None, labels=None, sequence_id=None,
                use_cache=None, return_dict=None, cache=None, num_items_in_batch=None, **others):
        """`sequence_id` [batch, length]: which packed text each token belongs to; texts do not see each other.
        `cache` is the name that transformers gives past_key_values since its version 5. `num_items_in_batch`, from
        its Trainer: labels of all microbatches and processes, by which the loss is divided."""
        for name in ("position_ids", "output_hidden_states", "output_attentions", "inputs_embeds"):
            wanted = others.get(name)
            if wanted is not None and wanted is not False:
                hint = "; texts packed into one row are told apart by sequence_id" if name == "position_ids" else ""
                raise ValueError(f"this model takes no {name}{hint}")
        cache = past_key_values if cache is None else cache
        if use_cache if use_cache is not None else self.config.use_cache:
            cache = DynamicCache() if cache is None else cache
        past = 0 if cache is None else cache.get_seq_length()
        layers = self.transformer.blocks
        place = Place(self.config, [layer.attn.attn for layer in layers], input_ids, attention_mask, sequence_id, past)
        x = self.transformer.wte(input_ids)
        if self.config.embedding_scale != 1:
            x = x * torch.tensor(self.config.embedding_scale, dtype=x.dtype)
        if self.config.learned_pos_emb:
            x = x + self.transformer.wpe(place.positions)
        fraction = self.config.embedding_fraction
        if fraction != 1:  # of its gradient
            x = x * fraction + x.detach() * (1 - fraction)
        x = F.dropout(x, self.config.emb_pdrop, self.training)
        made = {}
        for block in layers:
            x = block(x, place, made, cache)
        x = self.transformer.norm_f(x)
        head = self.transformer.wte if self.config.tie_word_embeddings else self.lm_head
        logits = F.linear(x, head.weight)
        if self.config.logit_scale is not None:
            logits = logits * self.config.logit_scale
        if self.config.final_logit_softcapping:
            cap = self.config.final_logit_softcapping
            logits = cap * torch.tanh(logits / cap)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(widened(logits[:, :-1]).flatten(0, 1), labels[:, 1:].flatten().to(logits.device),
                                   reduction="mean" if num_items_in_batch is None else "sum")
            if num_items_in_batch is not None:
                items = num_items_in_batch
                loss = loss / (items.to(loss.device) if torch.is_tensor(items) else items)
            if self.training:
                tokens = (labels[:, 1:] >= 0).sum(1).to(loss.device)
                mixtures = [block.ffn for block in layers if isinstance(block.ffn, Mixture)]
                routers = router_losses(self.config, mixtures, tokens)
                loss = loss + (routers if num_items_in_batch is None else routers * (tokens.sum() / items))
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        name = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
        return CausalLMOutputWithPast(loss=loss, logits=logits, **{name: cache})
