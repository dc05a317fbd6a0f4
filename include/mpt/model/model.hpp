// model: a decoder built from the library's layers, as its configuration describes it: an MPT in
// the form of LLM Foundry's YAML files (learned positions, biases) or of the Hugging Face hub
// (ALiBi, no biases), or a model of another family. Parameter names are those of LLM Foundry's
// checkpoints and the hub's MPTs; the other families' files have their own names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/model/build.hpp>
#include <mpt/model/microbatch.hpp>
#include <parallel/layer/kv_cache.hpp>
#include <parallel/tensor/embedding.hpp>
#include <parallel/tensor/head.hpp>
#include <parallel/train/model.hpp>

namespace mpt {

using parallel::kv_cache;

/// The state of one pass. The caches are copies of views: a pass writes rows after those in use and
/// does not change their number.
template <class T>
struct continuation : continued_texts {
  std::vector<std::vector<kv_cache<T>>> caches;  ///< by block and sequence; empty: no local keys
  matrix_view<accumulate_t<T>> logits;  ///< [sequences * wanted, local V], on the last stage
};

/// `Comm`: the communicator of the ranks that share the model.
template <class T, class Comm = any_communicator>
class model {
 public:
  using element = T;
  using block = mpt::block<T, Comm>;
  using microbatch = mpt::microbatch;

  /// Declares all parameters, or the slices of them that this rank of `groups` holds; units bind
  /// them to memory. The model must not move afterwards. `recompute`: the recomputation of each
  /// block; empty: nothing is recomputed.
  explicit model(model_config config, basic_model_groups<Comm> groups = {},
                 block_recomputation const& recompute = {});
  model(model&&) = delete;

  [[nodiscard]] model_config const& config() const { return config_; }
  [[nodiscard]] std::size_t num_blocks() const { return blocks_.size(); }
  [[nodiscard]] block const& at(std::size_t i) const { return blocks_[i]; }
  [[nodiscard]] index width() const { return config_.d_model; }
  /// Elements of a row's keys and values on this rank.
  [[nodiscard]] index key_width() const { return key_width_; }
  /// The range of tokens whose logits this rank computes.
  [[nodiscard]] parallel::row_range local_vocabulary() const {
    auto const& rows = head_.weight.rows;
    return rows.empty() ? parallel::row_range{0, config_.vocab_size} : rows.front();
  }
  /// Local rows of an activation between blocks.
  [[nodiscard]] index rows(microbatch const& b) const {
    return groups_.tensor.rows_outside(b.sequences * b.length);
  }
  [[nodiscard]] index sequence(microbatch const& b) const { return b.length; }
  /// The share of the microbatch's rows that this rank holds.
  [[nodiscard]] parallel::row_share share(microbatch const& b) const {
    auto out = groups_.context.partition(b.length).share();
    out.first_row = groups_.tensor.first_row_outside(b.sequences * b.length);
    return out;
  }
  /// The beginnings of documents, for a model whose attention stays within documents; otherwise
  /// empty.
  [[nodiscard]] parallel::packed_documents documents(microbatch const& b) const {
    if (!config_.attn.attn_uses_sequence_id) return {};
    return b.document_begins;
  }

  /// The number of labels of each whole sequence.
  [[nodiscard]] std::span<std::int32_t const> sequence_tokens(microbatch const& b) const {
    return b.sequence_tokens;
  }
  /// The numbers that a step's backward passes report: those of each router.
  [[nodiscard]] index record_size() const {
    return config_.experts ? expert_layer_count(config_) *
                                 parallel::ops::routing_record_size(config_.experts->count)
                           : 0;
  }

  /// Whether blocks run without communication, and the same for every microbatch: losses of routers
  /// depend on its labels.
  [[nodiscard]] bool blocks_are_local() const {
    return !config_.experts && groups_.tensor.is_single_rank() && groups_.context.is_single_rank();
  }

  /// A number that differs between microbatches with the same number of rows that need different
  /// amounts of memory.
  [[nodiscard]] index memory_variant(microbatch const& b) const {
    index const texts = b.continues == nullptr ? 0 : b.sequences * b.continues->wanted + 1;
    constexpr index scales = index{1} << 20;
    return texts * scales + static_cast<index>(groups_.expert_buffer * 256);
  }

  /// Whether rows may come to a rank of experts for which it has no room, whether a step's record
  /// says that some did, and twice the room for the next.
  [[nodiscard]] bool may_overflow() const {
    return !groups_.experts.is_single_rank() && groups_.expert_buffer != 0;
  }
  [[nodiscard]] bool has_overflowed(std::span<double const> record) const {
    return parallel::ops::has_overflowed(record, config_.experts->count);
  }
  void grow_buffers() {
    groups_.expert_buffer =
        parallel::tensor::grown_buffer(groups_.expert_buffer, groups_.experts.size());
  }

  /// Keys and values, by the block that makes them, to which blocks attend in addition to their
  /// own.
  struct shared_activations {
    std::map<index, shared_keys<T>> keys = {};  ///< used by several blocks
    std::vector<std::vector<kv_cache<T>>> caches =
        {};                                           ///< of earlier tokens, by block and sequence
    matrix_view<accumulate_t<T>> choice_counts = {};  ///< of the routers whose losses are joined
  };

  /// Allocates the shared activations of a microbatch for blocks [begin, end). Throws when one of
  /// these blocks attends to the keys of a block before `begin`.
  template <class Stream>
  [[nodiscard]] shared_activations make_shared_activations(context<Stream>& c, microbatch const& b,
                                                           index begin, index end) const {
    shared_activations out;
    if (b.continues != nullptr) {
      out.caches = static_cast<continuation<T> const*>(b.continues)->caches;
      return out;
    }
    for (index i = begin; i < end; ++i) {
      index const source = key_source(config_, i);
      if (source == i || out.keys.contains(source)) continue;
      require(source >= begin, "block ", i, " attends to the keys of block ", source,
              ", so that one pipeline stage must hold both, but this one holds blocks ", begin,
              " to ", end - 1);
      out.keys[source] = shared_keys<T>::allocate(c, b.sequences * b.length, key_width_);
    }
    if (config_.experts && config_.experts->joins_layers) {
      require(begin == 0 && end == config_.n_layers,
              "the balancing loss has its means over all layers, so that one pipeline stage must "
              "hold all blocks, but this one holds blocks ",
              begin, " to ", end - 1, "; set ffn_config.moe_joined_loss to false");
      out.choice_counts = c.template allocate<accumulate_t<T>, 2>(
          {expert_layer_count(config_), config_.experts->count});
    }
    return out;
  }
  /// Makes a pass of block `i`, whose saved activations are given, use the shared ones.
  void attach(shared_activations& shared, index i, typename block::saved& activations) const {
    index const source = key_source(config_, i);
    if (!shared.caches.empty())
      attention_activations<T, Comm>(activations).caches =
          shared.caches.at(static_cast<std::size_t>(source));
    else if (auto const found = shared.keys.find(source); found != shared.keys.end())
      attention_activations<T, Comm>(activations).shared = &found->second;
    if (!shared.choice_counts.empty() && experts_of_layer(config_, i) != nullptr)
      mixture_activations<T, Comm>(activations).routed.choices.counts = shared.choice_counts;
  }

  /// Calls f(name, layer, parts, further uses) for each unit in forward order; `parts` are those
  /// that complete each of its uses.
  template <class F>
  void visit_units(F&& f) {
    using uses = std::vector<parameter_base<T>*>;
    auto const head = static_cast<train::part>(blocks_.size());
    if (config_.tie_word_embeddings)
      f(std::string("transformer.wte"), tokens_, std::vector<train::part>{train::embed, head},
        uses{&head_.weight});
    else
      f(std::string("transformer.wte"), tokens_, std::vector<train::part>{train::embed}, uses{});
    if (positions_.is_present()) {
      single_parameter<T, 2> unit{positions_};
      f(std::string("transformer.wpe"), unit, std::vector<train::part>{train::embed}, uses{});
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      std::vector<train::part> const part{static_cast<train::part>(i)};
      f(concat("transformer.blocks.", i), blocks_[i], part, uses{});
      if (groups_.experts.is_single_rank()) continue;
      if (auto* const mixture = find_mixture<T, Comm>(blocks_[i])) {
        auto experts = mixture->routed.divided_parameters();
        f(concat("transformer.blocks.", i, ".ffn.experts"), experts, part, uses{});
      }
    }
    f(std::string("transformer.norm_f"), head_.norm_f, std::vector<train::part>{head}, uses{});
    if (!config_.tie_word_embeddings) {
      single_parameter<T, 2> unit{head_.weight};
      f(std::string("lm_head"), unit, std::vector<train::part>{head}, uses{});
    }
  }

  /// Embeds token ids: [rows] → [rows, D].
  template <class Stream>
  [[nodiscard]] matrix_view<T> embed(context<Stream>& c, microbatch const& b) const {
    c.document_begins = documents(b);
    auto x = tokens_.forward(c, b.ids);
    if (embedding_scale() != 1) ops::scale(c.stream, x.span(), embedding_scale());
    auto const add = [&](index row, index count, index sequence, index first) {
      ops::add_positions(c.stream, x.slice(row, row + count), positions_.value(), sequence,
                         {.first = first});
    };
    if (positions_.is_present() && b.continues != nullptr)
      for (index i = 0; i < b.sequences; ++i)
        add(i * b.length, b.length, b.length, b.continues->lengths[static_cast<std::size_t>(i)]);
    else if (positions_.is_present())
      for_each_position(c, x.extent(0), add);
    if (drops_embeddings(c)) drop(c, x, x);
    return x;
  }

  template <class Stream>
  void enter_backward(context<Stream>& c, microbatch const& b, matrix_view<T const> dy) const {
    auto gradient = dy;
    auto const fraction = static_cast<accumulate_t<T>>(config_.embedding_fraction);
    if (drops_embeddings(c) || fraction != 1) {
      auto scaled = c.template allocate<T, 2>(dy.extents());
      if (drops_embeddings(c))
        drop(c, scaled, dy);
      else
        ops::copy(c.stream, scaled.span(), dy.span());
      if (fraction != 1) ops::scale(c.stream, scaled.span(), fraction);
      gradient = scaled;
    }
    if (positions_.has_gradient())
      for_each_position(c, dy.extent(0), [&](index row, index count, index sequence, index first) {
        ops::add_positions_backward(c.stream, positions_.gradient(),
                                    gradient.slice(row, row + count), sequence, {.first = first});
      });
    if (embedding_scale() != 1) {
      auto const scaled = c.template allocate<T, 2>(gradient.extents());
      ops::copy(c.stream, scaled.span(), gradient.span());
      ops::scale(c.stream, scaled.span(), embedding_scale());
      gradient = scaled;
    }
    tokens_.backward_weight(c, b.ids, gradient);
  }

  template <class Stream>
  void head_loss(context<Stream>& c, microbatch const& b, matrix_view<T const> x, matrix_view<T> dx,
                 train::statistics<double>& sums) const {
    if (b.continues != nullptr) return write_logits(c, b, x);
    head_.loss(c, b.labels, b.loss_tokens, x, dx, sums);
  }

  /// The logits of every row, [rows, V]; for tests.
  template <class Stream>
  [[nodiscard]] matrix_view<accumulate_t<T>> logits(context<Stream>& c,
                                                    matrix_view<T const> x) const {
    return head_.logits(c, x);
  }

 private:
  /// Gives a single parameter the interface of a layer, visit_parameters.
  template <class U, std::size_t N>
  struct single_parameter {
    parameter<U, N>& value;
    void visit_parameters(auto&& visit) { visit(value); }
  };

  /// Writes the logits of the last `wanted` rows of each continued text.
  template <class Stream>
  void write_logits(context<Stream>& c, microbatch const& b, matrix_view<T const> x) const {
    auto const& texts = static_cast<continuation<T> const&>(*b.continues);
    if (texts.wanted == 0) return;
    if (texts.wanted == b.length) return head_.logits(c, texts.logits, x);
    auto const last = c.template allocate<T, 2>({b.sequences * texts.wanted, x.extent(1)});
    for (index i = 0; i < b.sequences; ++i) {
      index const end = (i + 1) * b.length;
      ops::copy(c.stream, last.slice(i * texts.wanted, (i + 1) * texts.wanted).span(),
                x.slice(end - texts.wanted, end).span());
    }
    head_.logits(c, texts.logits, last);
  }

  /// Calls f(row, count, sequence, position) for ranges of local rows in which every group of
  /// `sequence` rows begins at `position`.
  template <class Stream, class F>
  void for_each_position(context<Stream> const& c, index rows, F&& f) const {
    if (c.share == parallel::row_share{} && rows % c.sequence == 0)
      f(index{0}, rows, c.sequence, index{0});
    else
      c.for_each_run(rows, [&](index row, index count, std::uint64_t, index position) {
        f(row, count, count, position);
      });
  }

  /// transformers' Gemma rounds this factor to the type of the embeddings.
  [[nodiscard]] accumulate_t<T> embedding_scale() const {
    using A = accumulate_t<T>;
    return static_cast<A>(static_cast<T>(static_cast<A>(config_.embedding_scale)));
  }

  template <class Stream>
  [[nodiscard]] bool drops_embeddings(context<Stream> const& c) const {
    return config_.emb_pdrop > 0 && c.mode == pass::training;
  }

  template <class Stream>
  void drop(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x) const {
    parallel::drop_rows(c, y, x, static_cast<float>(config_.emb_pdrop),
                        stream_id("transformer.emb_drop"));
  }

  model_config config_;
  basic_model_groups<Comm> groups_;
  index key_width_ = 0;  // local elements of a row's keys and values
  parallel::tensor::embedding<T, Comm> tokens_;
  parameter<T, 2> positions_;
  std::deque<block> blocks_;  // a deque keeps their addresses
  parallel::tensor::head<T, Comm> head_;
};

template <class T, class Comm>
model<T, Comm>::model(model_config config, basic_model_groups<Comm> groups,
                      block_recomputation const& recompute)
    : config_(std::move(config)), groups_(std::move(groups)) {
  layer_builder<T, Comm> const build(config_, groups_);
  require(recompute.empty() || std::ssize(recompute) == config_.n_layers,
          "recomputation is given for ", recompute.size(), " blocks of a model that has ",
          config_.n_layers);
  std::string const prefix = "transformer.";
  index const d = config_.d_model;
  index const vocabulary = config_.vocab_size;
  tokens_.tensor_region = groups_.tensor;
  tokens_.weight =
      build.vocabulary_rows(prefix + "wte.weight", build.initial().embedding(vocabulary));
  if (config_.learned_pos_emb) {
    positions_ = {prefix + "wpe.weight",
                  {config_.max_seq_len, d},
                  build.initial().embedding(config_.max_seq_len)};
    positions_.replicated(groups_.tensor.replication_outside());
  }
  for (index i = 0; i < config_.n_layers; ++i)
    blocks_.push_back(build.make_block(
        concat(prefix, "blocks.", i, "."), i,
        recompute.empty() ? recomputation{} : recompute.at(static_cast<std::size_t>(i))));
  key_width_ = 2 * build.local_heads().kv_width();
  head_.tensor_region = groups_.tensor;
  head_.norm_f = build.make_norm(prefix + "norm_f");
  head_.weight =
      config_.tie_word_embeddings
          ? tokens_.weight
          : build.vocabulary_rows("lm_head.weight", build.initial().linear(vocabulary, d));
  head_.weight.replaces_gradient = true;
  head_.logit_scale = config_.logit_scale.value_or(1.0);
  head_.softcap = config_.final_logit_softcapping.value_or(0.0);
  head_.logits_bytes = config_.logits_bytes;
}

}  // namespace mpt
