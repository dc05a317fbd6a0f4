// MPT, in LLM Foundry's YAML form (learned positions, biases), the Hugging Face hub form (ALiBi, no
// biases) and what else LLM Foundry's configuration describes, built from the library's layers.
// Parameter names are those of the files.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include <mpt/config/model.hpp>
#include <mpt/model/alibi.hpp>
#include <mpt/model/block.hpp>
#include <mpt/model/head.hpp>
#include <mpt/model/initial.hpp>
#include <mpt/model/rotary.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/train/model.hpp>

namespace mpt {

using parallel::constant_init;
using parallel::embedding;
using parallel::initializer;

template <class T>
class model {
 public:
  using element = T;
  using block = mpt::block<T>;
  using microbatch = mpt::microbatch;

  /// Declares all parameters; units bind them to memory. Does not move afterwards.
  explicit model(model_config config) : config_(std::move(config)), initial_(config_) {
    std::string const prefix = "transformer.";
    index const d = config_.d_model;
    tokens_.weight = {
        prefix + "wte.weight", {config_.vocab_size, d}, initial_.embedding(config_.vocab_size)};
    if (config_.learned_pos_emb)
      positions_ = {
          prefix + "wpe.weight", {config_.max_seq_len, d}, initial_.embedding(config_.max_seq_len)};
    for (index i = 0; i < config_.n_layers; ++i)
      blocks_.push_back(
          make_block(concat(prefix, "blocks.", i, "."), attention_of_layer(config_, i)));
    head_.norm_f = make_norm(prefix + "norm_f", config_.norm_type, d);
    index const vocabulary = config_.vocab_size;
    if (config_.tie_word_embeddings)
      head_.weight = tokens_.weight;
    else
      head_.weight = {"lm_head.weight", {vocabulary, d}, initial_.linear(vocabulary, d)};
    head_.weight.replaces_gradient = true;
    head_.logit_scale = config_.logit_scale.value_or(1.0);
    head_.softcap = config_.final_logit_softcapping.value_or(0.0);
  }
  model(model const&) = delete;
  model& operator=(model const&) = delete;

  [[nodiscard]] model_config const& config() const { return config_; }
  [[nodiscard]] std::size_t num_blocks() const { return blocks_.size(); }
  [[nodiscard]] block const& at(std::size_t i) const { return blocks_[i]; }
  [[nodiscard]] index width() const { return config_.d_model; }
  [[nodiscard]] index rows(microbatch const& b) const { return b.sequences * b.length; }
  [[nodiscard]] index sequence(microbatch const& b) const { return b.length; }

  /// Units in forward order: f(name, layer, parts that complete each use, further uses).
  template <class F>
  void visit_units(F&& f) {
    using uses = std::vector<parameter_base<T>*>;
    auto const leave = static_cast<train::part>(blocks_.size());
    if (config_.tie_word_embeddings)
      f(std::string("transformer.wte"), tokens_, std::vector<train::part>{train::enter, leave},
        uses{&head_.weight});
    else
      f(std::string("transformer.wte"), tokens_, std::vector<train::part>{train::enter}, uses{});
    if (positions_.present()) {
      single_parameter<T, 2> alone{positions_};
      f(std::string("transformer.wpe"), alone, std::vector<train::part>{train::enter}, uses{});
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      f(concat("transformer.blocks.", i), blocks_[i],
        std::vector<train::part>{static_cast<train::part>(i)}, uses{});
    f(std::string("transformer.norm_f"), head_.norm_f, std::vector<train::part>{leave}, uses{});
    if (!config_.tie_word_embeddings) {
      single_parameter<T, 2> alone{head_.weight};
      f(std::string("lm_head"), alone, std::vector<train::part>{leave}, uses{});
    }
  }

  /// ids → [rows, D].  `first_position` is that of the first token (generation continues).
  template <class Stream>
  [[nodiscard]] matrix_view<T> enter(context<Stream>& c, microbatch const& b,
                                     index first_position = 0) const {
    if (config_.attn.attn_uses_sequence_id) c.document_begins = b.document_begins;
    auto x = tokens_.forward(c, b.ids);
    if (positions_.present())
      ops::add_positions(c.stream, x, positions_.value(), b.length, {.first = first_position});
    if (dropping(c)) drop(c, x, x);
    return x;
  }

  template <class Stream>
  void enter_backward(context<Stream>& c, microbatch const& b, matrix_view<T const> dy) const {
    auto gradient = dy;
    auto const fraction = static_cast<accumulate_t<T>>(config_.embedding_fraction);
    if (dropping(c) || fraction != 1) {
      auto scaled = c.template allocate<T, 2>(dy.extents());
      if (dropping(c))
        drop(c, scaled, dy);
      else
        ops::copy(c.stream, scaled.span(), dy.span());
      if (fraction != 1) ops::scale(c.stream, scaled.span(), fraction);
      gradient = scaled;
    }
    tokens_.backward_weight(c, b.ids, gradient);
    if (positions_.has_gradient())
      ops::add_positions_backward(c.stream, positions_.gradient(), gradient, b.length);
  }

  template <class Stream>
  void leave(context<Stream>& c, microbatch const& b, matrix_view<T const> x, matrix_view<T> dx,
             train::statistics<double>& sums) const {
    head_.loss(c, b, x, dx, sums);
  }

  /// Logits of every row, for generation and tests: [rows, V].
  template <class Stream>
  [[nodiscard]] matrix_view<accumulate_t<T>> logits(context<Stream>& c,
                                                    matrix_view<T const> x) const {
    return head_.logits(c, x);
  }

 private:
  /// A bare parameter as something with visit_parameters.
  template <class U, std::size_t N>
  struct single_parameter {
    parameter<U, N>& own;
    void visit_parameters(auto&& visit) { visit(own); }
  };

  [[nodiscard]] norm<T> make_norm(std::string const& name, norm_kind kind, index width) const {
    norm<T> out;
    out.weight = {name + ".weight", {width}, constant_init{1.0F}};
    if (has_norm_bias(config_, kind)) out.bias = {name + ".bias", {width}};
    out.eps = config_.norm_eps;
    out.rule = is_rms(kind) ? parallel::norm_rule::rms : parallel::norm_rule::layer;
    return out;
  }

  [[nodiscard]] linear<T> projection(std::string const& name, index out, index in, initializer init,
                                     bool biased) const {
    linear<T> layer;
    layer.weight = {name + ".weight", {out, in}, init};
    if (biased) layer.bias = {name + ".bias", {out}, initial_.bias(in)};
    return layer;
  }

  [[nodiscard]] qkv_projection<T> make_qkv(std::string const& name, head_layout layout) const {
    index const d = config_.d_model;
    // LLM Foundry initialises the rows of each head as a matrix of their own
    auto const part = [&](char const* suffix, index rows) {
      return projection(name + suffix, rows, d, initial_.linear(layout.dim, d),
                        has_attention_bias(config_));
    };
    qkv_projection<T> out;
    out.clip = static_cast<float>(config_.attn.clip_qkv.value_or(0.0));
    if (config_.attn.fused_qkv)
      out.parts = {part("Wqkv", layout.row())};
    else
      out.parts = {part("Wq", layout.width()), part("Wk", layout.kv_width()),
                   part("Wv", layout.kv_width())};
    return out;
  }

  [[nodiscard]] query_key_norm<T> make_query_key_norm(std::string const& name,
                                                      head_layout layout) const {
    auto const& attn = config_.attn;
    query_key_norm<T> out;
    if (!attn.qk_ln && !attn.qk_gn) return out;
    out.q = make_norm(name + "q_ln", attn.norm_type, attn.qk_gn ? layout.dim : layout.width());
    out.k = make_norm(name + "k_ln", attn.norm_type, attn.qk_gn ? layout.dim : layout.kv_width());
    out.q.eps = out.k.eps = 1e-5;  // LLM Foundry does not pass norm_eps on here
    return out;
  }

  [[nodiscard]] attention<T> make_attention(std::string const& name,
                                            attention_config const& attn) const {
    index const d = config_.d_model;
    attention<T> out;
    out.layout = {
        .heads = config_.n_heads, .kv_heads = kv_heads(config_), .dim = head_dim(config_)};
    out.qkv = make_qkv(name, out.layout);
    out.query_key = make_query_key_norm(name, out.layout);
    out.out = projection(name + "out_proj", d, d, initial_.residual(d, d), !config_.no_bias);
    out.scale = softmax_scale(config_);
    out.softcap = attn.attn_logit_softcapping.value_or(0.0);
    out.window = attn.sliding_window_size;
    out.dropout = static_cast<float>(attn.attn_pdrop);
    out.dropout_operation = stream_id(name + "dropout");
    if (attn.alibi)
      out.slopes = alibi_slopes(static_cast<int>(config_.n_heads), attn.alibi_bias_max);
    if (attn.rope) out.rotations = rotary_frequencies(*attn.rope, out.layout.dim);
    out.temperature = attn.temperature.attn_scale;
    out.temperature_floor = attn.temperature.floor_scale;
    return out;
  }

  [[nodiscard]] feed_forward<activation<T>> make_feed_forward(std::string const& name) const {
    index const d = config_.d_model;
    index const hidden = ffn_hidden(config_);
    bool const biased = !config_.no_bias;
    feed_forward<activation<T>> out;
    out.up = projection(name + "up_proj", hidden, d, initial_.linear(hidden, d), biased);
    if (config_.ffn_type == ffn_kind::mptglu)
      out.gate = projection(name + "gate_proj", hidden, d, initial_.linear(hidden, d), biased);
    out.down = projection(name + "down_proj", d, hidden, initial_.residual(d, hidden), biased);
    out.activate.kind = config_.ffn_act_fn;
    return out;
  }

  [[nodiscard]] block make_block(std::string const& name, attention_config const& attn) const {
    auto const pdrop = static_cast<float>(config_.resid_pdrop);
    sequential attend(make_norm(name + "norm_1", config_.norm_type, config_.d_model),
                      make_attention(name + "attn.", attn));
    sequential feed(make_norm(name + "norm_2", config_.norm_type, config_.d_model),
                    make_feed_forward(name + "ffn."));
    return block(
        residual(dropout(std::move(attend), pdrop, stream_id(name + "resid_attn_dropout"))),
        residual(dropout(std::move(feed), pdrop, stream_id(name + "resid_ffn_dropout"))));
  }

  template <class Stream>
  [[nodiscard]] bool dropping(context<Stream> const& c) const {
    return config_.emb_pdrop > 0 && c.mode == pass::training;
  }

  template <class Stream>
  void drop(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x) const {
    parallel::drop_rows(c, y, x, static_cast<float>(config_.emb_pdrop),
                        stream_id("transformer.emb_drop"));
  }

  model_config config_;
  initial_distribution initial_;
  embedding<T> tokens_;
  parameter<T, 2> positions_;
  std::deque<block> blocks_;  // addresses stay
  head<T> head_;
};

}  // namespace mpt
