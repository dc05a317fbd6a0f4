// A model made of ring operations only, for tests that need no tolerance.
//
// Arithmetic on std::uint64_t is exact modulo 2^64 in any order, so a layout that computes the same
// function gives the same bits: loss, gradients, squared norm, parameters after k steps. The model
// uses the same strategy templates as MPT: an embedding (tied to the head), residual blocks with a
// product across the sequence instead of attention, squares, and a squared loss. Heads, hidden
// units and the vocabulary are divided over tensor ranks, sequences over context ranks.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/layer_variant.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/optim/concepts.hpp>
#include <parallel/tensor/embedding.hpp>
#include <parallel/tensor/layers.hpp>
#include <parallel/tensor/linear.hpp>
#include <parallel/tensor/mixture.hpp>
#include <parallel/tensor/slices.hpp>
#include <parallel/train/model.hpp>

#include "support/ring/ring_layers.hpp"

namespace test {

using parallel::row_range;
using parallel::vector_view;

struct ring_microbatch {
  vector_view<std::int32_t const> ids;
  vector_view<std::int32_t const> labels;
  index sequences = 0;
  index length = 0;
  std::int64_t loss_tokens = 0;
};

/// Whether the blocks of a model have the same parameters.
enum class block_parameters : std::uint8_t {
  separate,
  shared_layer,  // all blocks are one layer
  tied           // blocks are separate layers, whose parameters are tied one by one
};

template <class Comm>
struct basic_ring_options {
  bool tied = true;    // the head uses the embedding's weights, or else its own unit
  bool gated = false;  // the feed-forward layers are gated linear units
  basic_ring_attention<Comm> attention = {};  // of all heads, and the context ranks
  index blocks = 3;
  index head_dim = 0;   // 0: the width, divided by the heads
  index hidden = 0;     // of the feed-forward layers; 0: three times the width
  index recompute = 0;  // number of blocks, from the first, that recompute their activations
  block_parameters block_kind = block_parameters::separate;
  index experts = 0;  // of each feed-forward layer; 0: it is dense
  index top_k = 2;    // experts of a row
  parallel::axis_group<parallel::axis::expert, Comm> expert_ranks = {};
  double expert_buffer = 0;
  index balance = 3;  // factor of the balancing loss of experts
  parallel::balance_set balance_set = parallel::balance_set::microbatch;
  bool equal_blocks = false;  // the parameters of all blocks have the same initial values
  parallel::tensor::region<Comm> tensor = {};

  /// The same options for a single rank with another type of communicator.
  template <class Other>
  [[nodiscard]] basic_ring_options<Other> for_single_rank() const {
    return {tied,      gated,       attention.template for_single_rank<Other>(),
            blocks,    head_dim,    hidden,
            recompute, block_kind,  experts,
            top_k,     {},          expert_buffer,
            balance,   balance_set, equal_blocks};
  }
};
using ring_options = basic_ring_options<parallel::any_communicator>;

/// `Comm` is the type of the communicators of tensor and context ranks.
template <class Comm>
class basic_ring_model {
 public:
  using element = ring;
  using microbatch = ring_microbatch;
  using gather = parallel::tensor::gather<ring, Comm>;
  using reduce = parallel::tensor::reduce<ring, Comm>;
  using mixer = parallel::sequential<ring_projection, ring_gain, basic_ring_attention<Comm>,
                                     parallel::linear<ring>>;
  using dense_mlp = parallel::feed_forward<ring_square, parallel::tensor::column_linear<ring, Comm>,
                                           parallel::tensor::row_linear<ring, Comm>>;
  using mixture = parallel::tensor::mixture<ring_square, Comm>;
  using mlp = parallel::layer_variant<dense_mlp, mixture>;
  using mixer_branch = parallel::residual<
      parallel::sequential<ring_norm, gather, parallel::tensor::sliced<mixer>, reduce>>;
  using mlp_branch = parallel::residual<parallel::sequential<ring_norm, mlp>>;
  using block = parallel::recompute<parallel::sequential<mixer_branch, mlp_branch>>;

  /// The initial values of all parameters, so small that floats hold them as whole numbers, odd
  /// ones too.
  static constexpr parallel::uniform_init any_number{0.0F, 16e6F};

  basic_ring_model(index blocks, index width, index vocabulary,
                   basic_ring_options<Comm> options = {})
      : width_(width),
        options_(std::move(options)),
        position_{options_.tensor.rank(), options_.tensor.size()} {
    tokens_.tensor_region = options_.tensor;
    tokens_.weight =
        rows_of<2>("wte", {vocabulary, width}, {position_.part_of(vocabulary, "the vocabulary")});
    exit_.weight = tokens_.weight;
    if (!options_.tied) exit_.weight.name = "head";
    final_ = make_norm("norm");
    num_blocks_ = static_cast<std::size_t>(blocks);
    for (index i = 0; i < (shares_layer() ? 1 : blocks); ++i) {
      auto const name =
          parallel::concat("block.", options_.block_kind == block_parameters::tied ? 0 : i, ".");
      blocks_.emplace_back(
          parallel::sequential(
              mixer_branch(parallel::sequential(make_norm(name + "norm_1"), gather{options_.tensor},
                                                parallel::tensor::sliced(make_mixer(name)),
                                                reduce{options_.tensor, make_bias(name + "out")})),
              mlp_branch(parallel::sequential(make_norm(name + "norm_2"), make_mlp(name, i)))),
          i < options_.recompute);
    }
  }

  [[nodiscard]] std::size_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] block const& at(std::size_t i) const { return blocks_[shares_layer() ? 0 : i]; }
  [[nodiscard]] index rows(microbatch const& b) const {
    return options_.tensor.rows_outside(b.sequences * b.length);
  }
  [[nodiscard]] index sequence(microbatch const& b) const { return b.length; }
  [[nodiscard]] parallel::row_share share(microbatch const& b) const {
    auto const& ranks = options_.attention.ranks;
    auto out =
        context_parallel::sequence_partition(ranks.rank(), ranks.size(), b.length * ranks.size())
            .share();
    out.first_row = options_.tensor.first_row_outside(b.sequences * b.length);
    return out;
  }
  [[nodiscard]] index width() const { return width_; }
  [[nodiscard]] index record_size() const {
    return static_cast<index>(num_blocks_) * parallel::ops::routing_record_size(options_.experts) *
           (options_.experts > 0 ? 1 : 0);
  }
  [[nodiscard]] index memory_variant(microbatch const&) const {
    return static_cast<index>(options_.expert_buffer * 256);
  }
  [[nodiscard]] bool may_overflow() const { return options_.expert_buffer != 0; }
  [[nodiscard]] bool has_overflowed(std::span<double const> record) const {
    return parallel::ops::has_overflowed(record, options_.experts);
  }
  void grow_buffers() {
    options_.expert_buffer =
        parallel::tensor::grown_buffer(options_.expert_buffer, options_.expert_ranks.size());
  }

  template <class F>
  void visit_units(F&& f) {
    using uses = std::vector<parallel::parameter_base<ring>*>;
    auto const leave = static_cast<index>(num_blocks_);
    std::vector<index> ends{parallel::train::embed, leave};
    if (!options_.tied) ends.pop_back();
    f(std::string("tokens"), tokens_, ends, options_.tied ? uses{&exit_.weight} : uses{});
    if (options_.block_kind == block_parameters::separate) {
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        std::vector<index> const part{static_cast<index>(i)};
        f(parallel::concat("block.", i), blocks_[i], part, uses{});
        if (options_.expert_ranks.is_single_rank()) continue;
        auto experts = mixture_of(blocks_[i])->routed.divided_parameters();
        f(parallel::concat("block.", i, ".experts"), experts, part, uses{});
      }
    } else {
      std::vector<index> parts(num_blocks_);
      std::iota(parts.begin(), parts.end(), 0);
      if (shares_layer())
        f(std::string("block.0"), blocks_[0], parts, uses{});
      else
        visit_tied_parameters(f, parts);
    }
    f(std::string("norm"), final_, std::vector<index>{leave}, uses{});
    if (!options_.tied) f(std::string("head"), exit_, std::vector<index>{leave}, uses{});
  }

  template <class Stream>
  matrix_view<ring> embed(context<Stream>& c, microbatch const& b) const {
    return tokens_.forward(c, b.ids);
  }
  template <class Stream>
  void enter_backward(context<Stream>& c, microbatch const& b, matrix_view<ring const> dy) const {
    tokens_.backward_weight(c, b.ids, dy);
  }

  /// loss = Σ over labelled rows and v of (x·W_v - [v = label])². Each tensor rank computes the
  /// terms of its part of the vocabulary.
  template <class Stream>
  void head_loss(context<Stream>& c, microbatch const& b, matrix_view<ring const> x,
                 matrix_view<ring> dx, parallel::train::statistics<ring>& sums) const {
    auto const& region = options_.tensor;
    ring_norm::saved state;
    matrix_view<ring const> const own_rows = final_.forward(c, x, state);
    auto const y = region.enter(c, own_rows);
    auto logits = c.template allocate<ring, 2>({y.extent(0), exit_.weight.extents[0]});
    parallel::ops::matmul(c.stream, logits, y, exit_.weight.value(), {.transpose_b = true});
    index const first = region.is_single_rank() ? 0 : exit_.weight.rows.front().begin;
    for_each_item(c.stream, 1,
                  items::loss{logits.data(), b.labels.data(), &sums.loss, logits.extent(0),
                              logits.extent(1), first});
    if (region.rank() == 0) sums.tokens += b.loss_tokens;
    if (dx.extent(0) == 0) return;
    matrix_view<ring const> const gradient = logits;
    auto const dy = c.template allocate<ring, 2>(y.extents());
    parallel::ops::matmul(c.stream, dy, gradient, exit_.weight.value());
    if (exit_.weight.has_gradient())
      parallel::ops::matmul(c.stream, exit_.weight.gradient(), gradient, y,
                            {.transpose_a = true, .accumulate = true});
    auto const d_own_rows = region.leave(c, parallel::tensor::addend<ring>{dy});
    auto const norm_gradient = final_.backward_input(c, d_own_rows, state);
    final_.backward_weight(c, state);
    parallel::ops::copy(c.stream, dx.span(), std::span<ring const>(norm_gradient.span()));
  }

 private:
  [[nodiscard]] static mixture* mixture_of(block& layers) {
    auto& feed = std::get<1>(std::get<1>(layers.inner.layers).inner.layers);
    return std::get_if<mixture>(&feed.layer);
  }
  [[nodiscard]] bool shares_layer() const {
    return options_.block_kind == block_parameters::shared_layer;
  }
  struct lone_parameter {
    parallel::parameter_base<ring>* parameter;
    void visit_parameters(auto&& visit) { visit(*parameter); }
  };
  /// Calls f with a unit for each parameter of the first block, tied to those of the others.
  void visit_tied_parameters(auto&& f, std::vector<index> const& parts) {
    std::vector<std::vector<parallel::parameter_base<ring>*>> parameters(blocks_.size());
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      parallel::visit_parameters_of(blocks_[i], [&](auto& p) { parameters[i].push_back(&p); });
    for (std::size_t k = 0; k < parameters[0].size(); ++k) {
      std::vector<parallel::parameter_base<ring>*> uses;
      for (std::size_t i = 1; i < blocks_.size(); ++i) uses.push_back(parameters[i][k]);
      lone_parameter layer{parameters[0][k]};
      f(parallel::concat("block.0, parameter ", k), layer, parts, uses);
    }
  }
  [[nodiscard]] parallel::initializer initial_values(std::string const& name) const {
    if (options_.equal_blocks && name.starts_with("block.")) return parallel::constant_init{7.0F};
    return any_number;
  }
  /// This rank's rows of a parameter.
  template <std::size_t N>
  [[nodiscard]] parallel::parameter<ring, N> rows_of(std::string const& name,
                                                     parallel::shape<N> whole,
                                                     std::vector<row_range> rows) const {
    parallel::parameter<ring, N> out{name, whole, initial_values(name)};
    if (position_.size > 1) out.keep_rows(std::move(rows));
    return out;
  }
  [[nodiscard]] parallel::linear<ring> make(
      std::string const& name, index out, std::vector<row_range> const& rows,
      parallel::parameter_replication replication = {}) const {
    parallel::linear<ring> layer;
    layer.weight = rows_of<2>(name + ".weight", {out, width_}, rows);
    layer.bias = rows_of<1>(name + ".bias", {out}, rows);
    layer.weight.replicated(replication);
    layer.bias.replicated(replication);
    return layer;
  }
  [[nodiscard]] parallel::linear<ring> columns_of(std::string const& name, index in,
                                                  row_range columns) const {
    parallel::linear<ring> layer;
    layer.weight = {name + ".weight", {width_, in}, initial_values(name)};
    if (position_.size > 1) layer.weight.keep_columns(columns.begin, columns.count);
    return layer;
  }

  [[nodiscard]] ring_norm make_norm(std::string const& name) const {
    ring_norm out;
    out.gain = {name + ".gain", {width_}, initial_values(name)};
    out.gain.replicated(options_.tensor.replication_outside());
    return out;
  }

  /// The bias of a result that is summed over tensor ranks.
  [[nodiscard]] parallel::parameter<ring, 1> make_bias(std::string const& name) const {
    parallel::parameter<ring, 1> out{name + ".bias", {width_}, initial_values(name)};
    out.replicated(options_.tensor.replication_outside());
    return out;
  }

  [[nodiscard]] mixer make_mixer(std::string const& name) const {
    using parallel::tensor::rows_of_heads;
    auto attend = options_.attention;
    index const heads = attend.heads;
    index const key_heads = attend.key_heads;
    index const dim = options_.head_dim > 0 ? options_.head_dim : width_ / heads;
    parallel::ops::head_layout const layout{.heads = heads, .kv_heads = key_heads, .dim = dim};
    auto const q = position_.queries_of(layout);
    attend.heads = q.count;
    if (!attend.ranks.is_single_rank() && attend.method == context_parallel::method::ulysses)
      for (index const rank :
           {index{0}, position_.size - 1}) {  // the ranks with the most and the fewest heads
        parallel::tensor::axis_position const position{rank, position_.size};
        context_parallel::check_heads("query", position.queries_of(layout).count,
                                      attend.ranks.size());
        if (key_heads > 0)
          context_parallel::check_heads("key", position.heads_of(key_heads).count,
                                        attend.ranks.size());
      }
    index const packed = (heads + key_heads) * dim;
    ring_projection project;
    auto const of_queries = rows_of_heads(q, dim);
    if (key_heads == 0) {
      project.parts = {make(name + "mix", packed, {of_queries})};
    } else {
      auto const k = position_.heads_of(key_heads);
      attend.key_heads = k.count;
      auto const of_keys = rows_of_heads(k, dim, heads * dim);
      int const sharers = position_.sharers_of(key_heads);
      if (sharers == 1)
        project.parts = {make(name + "mix", packed, {of_queries, of_keys})};
      else  // a slice that neighbours share is separate from the queries, which differ
        project.parts = {make(name + "mix", packed, {of_queries}),
                         make(name + "mix", packed, {of_keys}, {sharers, true})};
    }
    ring_gain gain;
    gain.gain = {name + "gain", {dim}, initial_values(name)};
    gain.gain.replicated(options_.tensor.replication_inside());
    return mixer(std::move(project), std::move(gain), std::move(attend),
                 columns_of(name + "out", heads * dim, of_queries));
  }

  /// Experts, and one that all rows use.
  [[nodiscard]] mixture make_mixture(std::string const& name, index layer, index hidden,
                                     row_range own_units) const {
    auto const& ranks = options_.expert_ranks;
    index const local_experts = options_.experts / ranks.size();
    // the rows of experts [first, first + held) of `count`
    auto const units = [&](std::string const& matrix, index count, index first, index held) {
      std::vector<row_range> rows;
      for (index e = first; e < first + held; ++e)
        rows.push_back({e * hidden + own_units.begin, own_units.count});
      parallel::parameter<ring, 2> out{
          name + matrix, {count * hidden, width_}, initial_values(name)};
      if (position_.size > 1 || held < count) out.keep_rows(std::move(rows));
      if (held < count) out.expert_ranks = ranks.size();
      return out;
    };
    auto const fill = [&](auto& layer, std::string const& kind, index count, index first,
                          index held) {
      layer.up = units(kind + "up", count, first, held);
      if (options_.gated) layer.gate = units(kind + "gate", count, first, held);
      layer.down = units(kind + "down", count, first, held);
    };
    mixture feed;
    feed.tensor_region = options_.tensor;
    fill(feed.routed, "experts.", options_.experts, ranks.rank() * local_experts, local_experts);
    fill(feed.shared.emplace(), "shared.", 1, 0, 1);
    auto& router = feed.routed.choose;
    router.weight = {name + "router", {options_.experts, width_}, initial_values(name)};
    router.weight.replicated(options_.tensor.replication_inside());
    if (options_.balance_set == parallel::balance_set::global_batch) {
      router.loads = {name + "loads", {options_.experts}, initial_values(name)};
      router.loads.replicated(options_.tensor.replication_inside());
    }
    router.top_k = options_.top_k;
    router.route.score = parallel::ops::router_score::identity;
    router.losses = {.balance = static_cast<double>(options_.balance), .set = options_.balance_set};
    router.adds_losses = position_.rank == 0;
    feed.routed.ranks = {options_.attention.ranks, ranks, &options_.expert_buffer};
    router.layer = layer;
    feed.bias = make_bias(name + "experts");
    return feed;
  }

  [[nodiscard]] mlp make_mlp(std::string const& name, index layer) const {
    index const hidden = options_.hidden > 0 ? options_.hidden : 3 * width_;
    auto const own_units = position_.part_of(hidden, "the number of hidden units");
    if (options_.experts > 0) return {make_mixture(name, layer, hidden, own_units)};
    dense_mlp feed;
    feed.up = {options_.tensor, make(name + "up", hidden, {own_units})};
    if (options_.gated) feed.gate = make(name + "gate", hidden, {own_units});
    feed.down = {options_.tensor, columns_of(name + "down", hidden, own_units),
                 make_bias(name + "down")};
    return {std::move(feed)};
  }

  index width_;
  std::size_t num_blocks_ = 0;
  basic_ring_options<Comm> options_;
  parallel::tensor::axis_position position_;
  parallel::tensor::embedding<ring, Comm> tokens_;
  parallel::embedding<ring> exit_;  // only its table is used
  ring_norm final_;
  std::deque<block> blocks_;
};
using ring_model = basic_ring_model<parallel::any_communicator>;

/// An optimizer of ring operations with one state: m = 3 m + g; p = p - rate m.
struct ring_momentum {
  ring rate = 5;

  [[nodiscard]] static std::span<std::string_view const> state_names() {
    static constexpr std::array<std::string_view, 1> names = {"momentum"};
    return names;
  }

  template <class Stream, class T, parallel::reduced_gradient Gradient>
  void update(Stream& s, parallel::update_ranges<T, Gradient> const& ranges,
              parallel::step_info<parallel::accumulate_t<T>> const&) const {
    for_each_item(s, std::ssize(ranges.values),
                  items::momentum{ranges.values.data(), ranges.states[0].data(),
                                  ranges.gradients.elements.data(), rate});
  }
};

}  // namespace test
