// layer_builder: the layers that a model's configuration describes, or one tensor rank's slices of
// them. Attention is divided by heads and the feed-forward layer by hidden units, so that a rank's
// results are addends; the fused projection is divided in each of its parts.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include <mpt/config/model.hpp>
#include <mpt/config/recompute.hpp>
#include <mpt/model/alibi.hpp>
#include <mpt/model/block.hpp>
#include <mpt/model/initial.hpp>
#include <mpt/model/rotary.hpp>

namespace mpt {

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

  /// Borrows both.
  layer_builder(model_config const& config, groups_type const& groups)
      : config_(config), groups_(groups), place_(groups.tensor_place()), initial_(config) {}

  [[nodiscard]] initial_distribution const& initial() const { return initial_; }

  /// Of the model, and of them those that are here.
  [[nodiscard]] head_layout heads() const {
    return {.heads = config_.n_heads, .kv_heads = kv_heads(config_), .dim = head_dim(config_)};
  }
  [[nodiscard]] head_layout heads_here() const { return place_.part_of(heads()); }

  /// A norm between regions.
  [[nodiscard]] norm<T> make_norm(std::string const& name) const {
    return make_norm(name, config_.norm_type, config_.d_model,
                     groups_.tensor.replication_outside());
  }

  /// The rows of [vocabulary, D] that are here.
  [[nodiscard]] parameter<T, 2> vocabulary_rows(std::string const& name,
                                                initializer const& init) const {
    parameter<T, 2> const all{name, {config_.vocab_size, config_.d_model}, init};
    return parallel::tensor::keep_rows(place_, all,
                                       {place_.part_of(config_.vocab_size, "vocab_size")});
  }

  /// Block `i` of the model.
  [[nodiscard]] block<T, Comm> make_block(std::string const& name, index i,
                                          recomputation const& how) const {
    // what recomputes reads its input a second time, before that is there again
    auto attend = make_branch(name + "norm_1", how.cheap && !how.attention,
                              recompute(make_attention(name + "attn.", i), how.attention),
                              name + "resid_attn_dropout");
    auto feed =
        make_branch(name + "norm_2", how.cheap && !how.feed_forward,
                    recompute(make_feed_forward(name + "ffn.", how.cheap), how.feed_forward),
                    name + "resid_ffn_dropout");
    return block<T, Comm>(sequential(recompute(std::move(attend), how.attention_branch),
                                     recompute(std::move(feed), how.feed_forward_branch)),
                          how.block);
  }

 private:
  [[nodiscard]] norm<T> make_norm(std::string const& name, norm_kind kind, index width,
                                  parameter_replication replication) const {
    norm<T> out;
    out.weight = {name + ".weight", {width}, constant_init{1.0F}};
    if (has_norm_bias(config_, kind)) out.bias = {name + ".bias", {width}};
    out.weight.replicated(replication);
    out.bias.replicated(replication);
    out.eps = config_.norm_eps;
    out.rule = is_rms(kind) ? parallel::norm_rule::rms : parallel::norm_rule::layer;
    return out;
  }

  template <class Layer>
  [[nodiscard]] auto make_branch(std::string const& norm_name, bool norm_again, Layer layer,
                                 std::string const& dropout_name) const {
    auto before = make_norm(norm_name);
    before.is_droppable = norm_again;
    return residual(dropout(sequential(std::move(before), std::move(layer)),
                            static_cast<float>(config_.resid_pdrop), stream_id(dropout_name)));
  }

  /// What stands beside a projection: A as PEFT begins it, kaiming_uniform_(a=√5), and B zero.
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

  /// All of a projection's weights and bias, and its adapter.
  [[nodiscard]] linear<T> whole(std::string const& name, index out, index in,
                                initializer const& init, bool biased) const {
    linear<T> layer;
    layer.weight = {name + ".weight", {out, in}, init};
    if (biased) layer.bias = {name + ".bias", {out}, initial_.bias(in)};
    layer.adapter = make_adapter(name, out, in);
    return layer;
  }

  /// A region's last projection, from `in` units of which those in `here` are here; its bias is
  /// added once, where the region is left.
  [[nodiscard]] row_linear<T, Comm> make_last(std::string const& name, index in,
                                              row_range here) const {
    index const d = config_.d_model;
    row_linear<T, Comm> out{groups_.tensor,
                            parallel::tensor::keep_inputs(
                                place_, whole(name, d, in, initial_.residual(d, in), false), here),
                            {}};
    if (!config_.no_bias) {
      out.bias = {name + ".bias", {d}, initial_.bias(in)};
      out.bias.replicated(groups_.tensor.replication_outside());
    }
    return out;
  }

  [[nodiscard]] qkv_projection<T, Comm> make_qkv(std::string const& name, head_layout all,
                                                 bool own_keys) const {
    index const d = config_.d_model;
    // LLM Foundry initialises the rows of each head as a matrix of their own
    auto const init = initial_.linear(all.dim, d);
    auto const project = [&](char const* suffix, index rows) {
      return whole(name + suffix, rows, d, init, has_attention_bias(config_));
    };
    using parallel::tensor::keep_heads;
    qkv_projection<T, Comm> out(
        !own_keys ? parallel::tensor::keep_queries(place_, all, project("Wq", all.width()))
        : config_.attn.fused_qkv
            ? keep_heads(place_, all, project("Wqkv", all.row()))
            : keep_heads(place_, all, project("Wq", all.width()), project("Wk", all.kv_width()),
                         project("Wv", all.kv_width())),
        groups_.tensor);
    out.clip = static_cast<accumulate_t<T>>(config_.attn.clip_qkv.value_or(0.0));
    return out;
  }

  /// Each head alone (qk_gn), or all of them together (qk_ln), wherever they are.
  [[nodiscard]] query_key_norm<T, Comm> make_query_key_norm(std::string const& name,
                                                            head_layout all, bool own_keys) const {
    auto const& attn = config_.attn;
    query_key_norm<T, Comm> out;
    if (!attn.qk_ln && !attn.qk_gn) return out;
    auto const make = [&](char const* suffix, index width) {
      auto by = make_norm(name + suffix, attn.norm_type, attn.qk_gn ? all.dim : width,
                          groups_.tensor.replication_inside());
      by.eps = 1e-5;  // LLM Foundry does not pass norm_eps on here
      return by;
    };
    out.inner.q = make("q_ln", all.width());
    if (own_keys) out.inner.k = make("k_ln", all.kv_width());
    if (attn.qk_ln) out.ranks = groups_.tensor.group;
    out.queries = parallel::tensor::columns_of_queries(place_.size, all);
    out.keys = parallel::tensor::columns_of_keys(place_.size, all);
    return out;
  }

  /// What the exchange of heads asks of every tensor rank's: all refuse alike.
  void check_exchanged_heads(head_layout const& all) const {
    using parallel::context_parallel::check_heads;
    int const ranks = groups_.context.group.size();
    for (index const rank : {index{0}, place_.size - 1}) {  // those with most and fewest
      auto const there = parallel::tensor::axis_position{rank, place_.size}.part_of(all);
      check_heads("query", there.heads, ranks);
      check_heads("key", there.kv_heads, ranks);
    }
  }

  [[nodiscard]] attention<T, Comm> make_attention(std::string const& name, index i) const {
    auto const attn = attention_of_layer(config_, i);
    auto const all = heads();
    auto const q = place_.queries_of(all);
    attention<T, Comm> out;
    out.layout = heads_here();
    out.own_keys = key_source(config_, i) == i;
    if (groups_.context.exchange_heads()) check_exchanged_heads(all);
    out.ranks = groups_.context;
    out.qkv = make_qkv(name, all, out.own_keys);
    out.query_key = make_query_key_norm(name, all, out.own_keys);
    out.out = make_last(name + "out_proj", config_.d_model, rows_of_heads(q, all.dim));
    out.scores = {.scale = softmax_scale(config_),
                  .dropout = {.probability = static_cast<float>(attn.attn_pdrop),
                              .first_head = q.begin,
                              .heads = all.heads},
                  .softcap = attn.attn_logit_softcapping.value_or(0.0),
                  .window = attn.sliding_window_size};
    out.dropout_operation = stream_id(name + "dropout");
    if (attn.alibi) {
      auto const slopes = alibi_slopes(static_cast<int>(all.heads), attn.alibi_bias_max);
      out.slopes.assign(slopes.begin() + q.begin, slopes.begin() + q.begin + q.count);
    }
    if (attn.rope) {
      out.positions.rotary = {.frequencies = rotary_frequencies(*attn.rope, out.layout.dim),
                              .growths = rotary_growths(*attn.rope, out.layout.dim),
                              // so that lengths stay near 1 the longest
                              .origin = config_.max_seq_len / 2};
    }
    out.positions.temperature = attn.temperature.attn_scale;
    out.positions.temperature_floor = attn.temperature.floor_scale;
    return out;
  }

  [[nodiscard]] feed_forward<T, Comm> make_feed_forward(std::string const& name, bool again) const {
    index const d = config_.d_model;
    index const hidden = ffn_hidden(config_);
    bool const biased = !config_.no_bias;
    auto const some = place_.part_of(hidden, "the hidden width of the feed-forward layer");
    feed_forward<T, Comm> out;
    auto const rows_of = [&](char const* suffix) {
      return parallel::tensor::keep_outputs(
          place_, whole(name + suffix, hidden, d, initial_.linear(hidden, d), biased), {some});
    };
    out.up = {groups_.tensor, rows_of("up_proj")};
    if (config_.ffn_type == ffn_kind::mptglu) out.gate = rows_of("gate_proj");
    out.down = make_last(name + "down_proj", hidden, some);
    out.activate = {.kind = config_.ffn_act_fn, .is_droppable = again};
    return out;
  }

  model_config const& config_;
  groups_type const& groups_;
  parallel::tensor::axis_position place_;
  initial_distribution initial_;
};

}  // namespace mpt
