// layer_builder: builds the layers that a model's configuration describes, or one tensor rank's
// slices of them. Attention is divided by heads and the feed-forward layer by hidden units, so that
// the ranks' results add up to the layer's; the fused projection is divided in queries, keys and
// values alike.
//
// Initial distributions of MPT's weights, as LLM Foundry's init_config describes them.
//
// Default (kaiming_normal_, fan_in, relu): linear weights Normal(0, √(2/in)); embeddings
// Normal(0, √(2/d)); projections back onto the residual stream are divided by √(2·layers).
// Sources: He et al., 2015, eq. 10 (kaiming); Glorot, Bengio, 2010, eq. 16 (xavier); Nguyen,
// Salazar, 2019 (small).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/model.hpp>
#include <mpt/config/model/recompute.hpp>
#include <mpt/model/attention_positions.hpp>
#include <mpt/model/block.hpp>
#include <parallel/core/parameter.hpp>

namespace mpt {

/// The distributions of a model's initial values, by the kind of parameter.
class initial_distribution {
 public:
  explicit initial_distribution(model_config config) : config_(std::move(config)) {}

  /// Weight [out, in] of a linear layer.
  [[nodiscard]] parallel::initializer linear(std::int64_t out, std::int64_t in) const;

  /// Weight [out, in] of a projection whose result is added to the residual stream.
  [[nodiscard]] parallel::initializer residual(std::int64_t out, std::int64_t in) const;

  /// Bias of a linear layer of `in` inputs: zero, except in torch's default scheme.
  [[nodiscard]] parallel::initializer bias(std::int64_t in) const;

  /// Token and position tables of `rows` rows.
  [[nodiscard]] parallel::initializer embedding(std::int64_t rows) const;

 private:
  static parallel::initializer normal(double deviation);
  static parallel::initializer uniform(double limit);

  /// torch.nn.init.calculate_gain.
  [[nodiscard]] double kaiming_gain() const;

  [[nodiscard]] parallel::initializer weight(std::int64_t out, std::int64_t in,
                                             double divisor) const;

  model_config config_;
};

using parallel::constant_init;
using parallel::initializer;
using parallel::parameter_replication;
using parallel::row_range;
using parallel::uniform_init;
using parallel::tensor::rows_of_heads;

template <class T, class Comm = any_communicator>
class layer_builder {
 public:
  using groups_type = basic_model_groups<Comm>;

  /// Both arguments must outlive the builder.
  layer_builder(model_config const& config, groups_type const& groups)
      : config_(config), groups_(groups), position_(groups.tensor_position()), initial_(config) {}

  [[nodiscard]] initial_distribution const& initial() const { return initial_; }

  /// The attention heads of the whole model.
  [[nodiscard]] head_layout heads() const {
    return {.heads = config_.n_heads, .kv_heads = kv_heads(config_), .dim = head_dim(config_)};
  }
  /// The attention heads of this tensor rank.
  [[nodiscard]] head_layout local_heads() const { return position_.part_of(heads()); }

  /// A norm that is used between regions of the tensor axis.
  [[nodiscard]] norm<T> make_norm(std::string const& name) const {
    return make_norm(name, config_.norm_type, config_.d_model,
                     groups_.tensor.replication_outside());
  }

  /// This rank's rows of a parameter [vocabulary, D].
  [[nodiscard]] parameter<T, 2> vocabulary_rows(std::string const& name,
                                                initializer const& init) const {
    parameter<T, 2> const complete{name, {config_.vocab_size, config_.d_model}, init};
    return parallel::tensor::keep_rows(position_, complete,
                                       {position_.part_of(config_.vocab_size, "vocab_size")});
  }

  /// Block `i` of the model. `prefix`: the beginning of its parameters' names, with the last dot.
  [[nodiscard]] block<T, Comm> make_block(std::string const& prefix, index i,
                                          recomputation const& recompute_options) const {
    // a norm in front of a layer that recomputes is not droppable: that layer reads its input a
    // second time, before the norm is recomputed
    auto attention_branch =
        make_branch(prefix, "norm_1", recompute_options.cheap && !recompute_options.attention,
                    recompute(make_attention(prefix + "attn.", i), recompute_options.attention),
                    "resid_attn_dropout", recompute_options.attention_branch);
    auto feed_forward_branch =
        make_branch(prefix, "norm_2", recompute_options.cheap && !recompute_options.feed_forward,
                    recompute(make_feed_forward(prefix + "ffn.", i, recompute_options.cheap),
                              recompute_options.feed_forward),
                    "resid_ffn_dropout", recompute_options.feed_forward_branch);
    return block<T, Comm>(
        {std::move(attention_branch), std::move(feed_forward_branch), config_.parallel_residual},
        recompute_options.block);
  }

 private:
  [[nodiscard]] norm<T> make_norm(std::string const& name, norm_kind kind, index width,
                                  parameter_replication replication) const {
    norm<T> out;
    out.weight = {name + ".weight", {width}, constant_init{config_.norm_unit_offset ? 0.0F : 1.0F}};
    if (has_norm_bias(config_, kind)) out.bias = {name + ".bias", {width}};
    out.weight.replicated(replication);
    out.bias.replicated(replication);
    out.eps = config_.norm_eps;
    out.weight_offset = config_.norm_unit_offset ? 1 : 0;
    out.rule = is_rms(kind) ? parallel::norm_rule::rms : parallel::norm_rule::layer;
    return out;
  }

  template <class Layer>
  [[nodiscard]] auto make_branch(std::string const& prefix, std::string const& norm_name,
                                 bool recompute_norm, Layer layer, std::string const& dropout_name,
                                 bool recompute_branch) const {
    norm<T> input_norm;
    if (has_input_norms(config_)) input_norm = make_norm(prefix + norm_name);
    input_norm.is_droppable = recompute_norm;
    normed_branch<Layer> branch{sequential(std::move(input_norm), std::move(layer))};
    if (has_output_norms(config_)) branch.output_norm = make_norm(prefix + "post_" + norm_name);
    branch.scale = static_cast<accumulate_t<T>>(config_.residual_scale);
    return residual(recompute(dropout(std::move(branch), static_cast<float>(config_.resid_pdrop),
                                      stream_id(prefix + dropout_name)),
                              recompute_branch));
  }

  /// The adapter of a projection, initialised as PEFT does: A by kaiming_uniform_(a=√5), B zero.
  [[nodiscard]] parallel::low_rank<T> make_adapter(std::string const& name, index out,
                                                   index in) const {
    if (!config_.lora || !is_adapted(*config_.lora, name)) return {};
    auto const& lora = *config_.lora;
    index const rank = lora_rank(lora, name);
    auto const bound = static_cast<float>(1 / std::sqrt(static_cast<double>(in)));
    return {.a = {concat(name, lora_a_suffix), {rank, in}, uniform_init{-bound, bound}},
            .b = {concat(name, lora_b_suffix), {out, rank}},
            .scale = lora_scale(lora, name),
            .dropout = static_cast<float>(lora.dropout),
            .operation = stream_id(name + ".lora_dropout")};
  }

  /// A projection that is not divided: its weight, bias and adapter.
  [[nodiscard]] linear<T> make_linear(std::string const& name, index out, index in,
                                      initializer const& init, bool has_bias) const {
    linear<T> layer;
    layer.weight = {name + ".weight", {out, in}, init};
    if (has_bias) layer.bias = {name + ".bias", {out}, initial_.bias(in)};
    layer.adapter = make_adapter(name, out, in);
    return layer;
  }

  /// The last projection of a region, from `in` units, of which this rank has `local_units`. Its
  /// bias is added once, at the end of the region.
  [[nodiscard]] row_linear<T, Comm> make_last_projection(std::string const& name, index in,
                                                         row_range local_units,
                                                         bool has_bias) const {
    index const d = config_.d_model;
    row_linear<T, Comm> out{
        groups_.tensor,
        parallel::tensor::keep_inputs(
            position_, make_linear(name, d, in, initial_.residual(d, in), false), local_units),
        {}};
    if (has_bias) {
      out.bias = {name + ".bias", {d}, initial_.bias(in)};
      out.bias.replicated(groups_.tensor.replication_outside());
    }
    return out;
  }

  [[nodiscard]] qkv_projection<T, Comm> make_qkv(std::string const& prefix, head_layout heads,
                                                 bool has_keys) const {
    index const d = config_.d_model;
    // LLM Foundry initialises the rows of each head as a separate matrix
    auto const init = initial_.linear(heads.dim, d);
    auto const project = [&](char const* suffix, index rows) {
      return make_linear(prefix + suffix, rows, d, init, has_attention_bias(config_));
    };
    using parallel::tensor::keep_heads;
    qkv_projection<T, Comm> out(
        !has_keys ? parallel::tensor::keep_queries(position_, heads, project("Wq", heads.width()))
        : config_.attn.fused_qkv
            ? keep_heads(position_, heads, project("Wqkv", heads.row()))
            : keep_heads(position_, heads, project("Wq", heads.width()),
                         project("Wk", heads.kv_width()), project("Wv", heads.kv_width())),
        groups_.tensor);
    out.clip = static_cast<accumulate_t<T>>(config_.attn.clip_qkv.value_or(0.0));
    return out;
  }

  /// Norms of queries and keys: of each head separately (qk_gn), or over the heads of all ranks
  /// (qk_ln).
  [[nodiscard]] query_key_norm<T, Comm> make_query_key_norm(std::string const& prefix,
                                                            head_layout heads,
                                                            bool has_keys) const {
    auto const& attn = config_.attn;
    query_key_norm<T, Comm> out;
    if (!attn.qk_ln && !attn.qk_gn) return out;
    auto const make = [&](char const* suffix, index width) {
      auto result = make_norm(prefix + suffix, attn.norm_type, attn.qk_gn ? heads.dim : width,
                              groups_.tensor.replication_inside());
      result.eps = attn.qk_norm_eps;
      return result;
    };
    out.inner.q = make("q_ln", heads.width());
    if (has_keys) out.inner.k = make("k_ln", heads.kv_width());
    if (attn.qk_ln) out.ranks = groups_.tensor.group;
    out.queries = parallel::tensor::columns_of_queries(position_.size, heads);
    out.keys = parallel::tensor::columns_of_keys(position_.size, heads);
    return out;
  }

  /// Checks what the exchange of heads requires of every tensor rank's heads, so that all ranks
  /// refuse the same configurations.
  void check_exchanged_heads(head_layout const& heads) const {
    using parallel::context_parallel::check_heads;
    int const ranks = groups_.context.group.size();
    // the first rank has the most heads, and the last has the fewest
    for (index const rank : {index{0}, position_.size - 1}) {
      auto const local = parallel::tensor::axis_position{rank, position_.size}.part_of(heads);
      check_heads("query", local.heads, ranks);
      check_heads("key", local.kv_heads, ranks);
    }
  }

  [[nodiscard]] attention<T, Comm> make_attention(std::string const& prefix, index i) const {
    auto const attn = attention_of_layer(config_, i);
    auto const model_heads = heads();
    auto const queries = position_.queries_of(model_heads);
    attention<T, Comm> layer;
    layer.layout = local_heads();
    layer.has_own_keys = key_source(config_, i) == i;
    if (groups_.context.exchange_heads()) check_exchanged_heads(model_heads);
    layer.ranks = groups_.context;
    layer.qkv = make_qkv(prefix, model_heads, layer.has_own_keys);
    layer.query_key = make_query_key_norm(prefix, model_heads, layer.has_own_keys);
    layer.out =
        make_last_projection(prefix + "out_proj", model_heads.width(),
                             rows_of_heads(queries, model_heads.dim), has_out_proj_bias(config_));
    layer.scores = {.scale = softmax_scale(attn, model_heads.dim),
                    .dropout = {.probability = static_cast<float>(attn.attn_pdrop),
                                .first_head = queries.begin,
                                .heads = model_heads.heads},
                    .softcap = attn.attn_logit_softcapping.value_or(0.0),
                    .window = attn.sliding_window_size};
    layer.dropout_operation = stream_id(prefix + "dropout");
    if (attn.alibi) {
      auto const slopes = alibi_slopes(static_cast<int>(model_heads.heads), attn.alibi_bias_max);
      layer.slopes.assign(slopes.begin() + queries.begin,
                          slopes.begin() + queries.begin + queries.count);
    }
    if (attn.rope) {
      layer.positions.rotary = {.frequencies = rotary_frequencies(*attn.rope, layer.layout.dim),
                                .growths = rotary_growths(*attn.rope, layer.layout.dim),
                                // the middle keeps xPos's factors close to 1 at all positions
                                .origin = config_.max_seq_len / 2,
                                .scale = rotary_scale(*attn.rope),
                                .long_frequencies = long_frequencies(*attn.rope, layer.layout.dim),
                                .short_length = short_length(*attn.rope)};
    }
    layer.positions.temperature_scale = attn.temperature.attn_scale;
    layer.positions.temperature_floor_scale = attn.temperature.floor_scale;
    return layer;
  }

  [[nodiscard]] feed_forward<T, Comm> make_feed_forward(std::string const& prefix, index i,
                                                        bool recompute_activation) const {
    if (experts_of_layer(config_, i) != nullptr) return {make_mixture(prefix, i)};
    return {make_dense_feed_forward(prefix, recompute_activation)};
  }

  /// This rank's hidden units of its part of `count` experts of `hidden` units each; `ranks` divide
  /// the experts.
  [[nodiscard]] parameter<T, 2> expert_units(std::string const& name, index count, index hidden,
                                             int ranks, initializer const& init) const {
    auto const units = position_.part_of(hidden, "the hidden width of an expert");
    index const held = count / ranks;
    index const first = ranks == 1 ? 0 : groups_.experts.rank() * held;
    std::vector<row_range> rows;
    for (index e = first; e < first + held; ++e)
      rows.push_back({e * hidden + units.begin, units.count});
    parameter<T, 2> out{name, {count * hidden, config_.d_model}, init};
    if (ranks > 1 || position_.size > 1) out.keep_rows(std::move(rows));
    out.expert_ranks = ranks;
    return out;
  }

  /// Experts without their router.
  template <class Experts>
  [[nodiscard]] Experts make_experts(std::string const& prefix, index count, index hidden,
                                     int ranks) const {
    index const d = config_.d_model;
    bool const is_gated = config_.ffn_type == ffn_kind::mptglu;
    bool const is_torch = config_.experts->kind == experts_kind::torch_dmoe;
    auto const init = initial_.linear(hidden, d);
    Experts out;
    auto first = expert_units(prefix + "w1", count, hidden, ranks, init);
    if (is_gated) {
      out.gate = std::move(first);
      out.up = expert_units(prefix + "v1", count, hidden, ranks, init);
    } else {
      out.up = std::move(first);
    }
    // LLM Foundry's torch_dmoe draws w2 as a matrix of d inputs
    out.down = expert_units(prefix + "w2", count, hidden, ranks,
                            is_torch ? init : initial_.residual(d, hidden));
    out.activate = {.kind = config_.ffn_act_fn};
    return out;
  }

  [[nodiscard]] parameter<T, 2> router_weight(std::string const& name, index count) const {
    parameter<T, 2> out{name, {count, config_.d_model}, initial_.linear(count, config_.d_model)};
    return out.replicated(groups_.tensor.replication_inside());
  }

  [[nodiscard]] mixture<T, Comm> make_mixture(std::string const& prefix, index i) const {
    auto const& experts = *config_.experts;
    mixture<T, Comm> out;
    out.tensor_region = groups_.tensor;
    out.routed = make_experts<typename mixture<T, Comm>::expert_layer>(
        prefix + "experts.mlp.", experts.count, expert_hidden(config_), groups_.experts.size());
    out.routed.ranks = {groups_.context.group, groups_.experts, &groups_.expert_buffer};
    out.routed.capacity_factor = experts.capacity_factor;
    auto& router = out.routed.choose;
    router.weight = router_weight(prefix + "router.layer.weight", experts.count);
    auto const number_for_each = [&](char const* name) {
      parameter<T, 1> numbers{prefix + name, {experts.count}};
      return numbers.replicated(groups_.tensor.replication_inside());
    };
    if (experts.bias_rate > 0) router.bias = number_for_each("router.expert_bias");
    if (knows_loads(experts)) router.loads = number_for_each("router.expert_loads");
    router.top_k = experts.top_k;
    router.route = {.norm = experts.weight_norm, .uniform = experts.uniform};
    router.jitter = static_cast<float>(experts.jitter);
    router.jitter_operation = stream_id(prefix + "router.jitter");
    double const shares = experts.joins_layers ? 1.0 : static_cast<double>(config_.n_layers);
    router.losses = {.balance = experts.loss_weight / shares,
                     .z = experts.z_loss_weight,
                     .set = experts.balance_set,
                     .joins_layers = experts.joins_layers && experts.loss_weight > 0};
    for (index earlier = 0; earlier < i; ++earlier)
      if (experts_of_layer(config_, earlier) != nullptr) ++router.layer;
    router.adds_losses = position_.rank == 0;
    if (experts.shared_hidden) {
      out.shared = make_experts<typename mixture<T, Comm>::shared_layer>(
          prefix + "shared_expert.", 1, *experts.shared_hidden, 1);
      out.shared->choose.adds_losses = false;
      if (experts.has_shared_gate) {
        out.shared->choose.weight = router_weight(prefix + "shared_expert_gate.weight", 1);
        out.shared->choose.route.score = parallel::ops::router_score::sigmoid;
      }
    }
    if (has_expert_bias(config_)) {
      out.bias = {prefix + "experts.bias", {config_.d_model}};
      out.bias.replicated(groups_.tensor.replication_outside());
    }
    return out;
  }

  [[nodiscard]] dense_feed_forward<T, Comm> make_dense_feed_forward(
      std::string const& prefix, bool recompute_activation) const {
    index const d = config_.d_model;
    index const hidden = ffn_hidden(config_);
    bool const has_bias = !config_.no_bias;
    auto const local_units =
        position_.part_of(hidden, "the hidden width of the feed-forward layer");
    dense_feed_forward<T, Comm> out;
    auto const make_projection = [&](char const* suffix, std::vector<row_range> const& units) {
      index const rows = hidden * std::ssize(units);
      return parallel::tensor::keep_outputs(
          position_, make_linear(prefix + suffix, rows, d, initial_.linear(hidden, d), has_bias),
          units);
    };
    row_range const packed_units{hidden + local_units.begin, local_units.count};
    out.up_has_gate = config_.fused_gate;
    out.up = {groups_.tensor, config_.fused_gate
                                  ? make_projection("gate_up_proj", {local_units, packed_units})
                                  : make_projection("up_proj", {local_units})};
    if (config_.ffn_type == ffn_kind::mptglu && !config_.fused_gate)
      out.gate = make_projection("gate_proj", {local_units});
    out.down = make_last_projection(prefix + "down_proj", hidden, local_units, has_bias);
    out.activate = {.kind = config_.ffn_act_fn, .is_droppable = recompute_activation};
    return out;
  }

  model_config const& config_;
  groups_type const& groups_;
  parallel::tensor::axis_position position_;
  initial_distribution initial_;
};

}  // namespace mpt
