// A model made of ring operations only, for tests that need no tolerance.
//
// Over std::uint64_t arithmetic is exact modulo 2^64 in any order, so a layout that computes the
// same thing gives the same bits: loss, gradients, squared norm, parameters after k steps. The
// model passes through the very same strategy templates as MPT: embedding (tied to the exit),
// residual blocks with a product across the sequence in attention's place, squares, a squared loss.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <parallel/layer/embedding.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/optim/concepts.hpp>
#include <parallel/train/model.hpp>

#include "support/ring_attention.hpp"

namespace test {

using parallel::vector_view;

/// y = x ∘ x.
struct ring_square {
  using element = ring;
  struct saved {
    matrix_view<ring const> x;
  };
  template <class Stream>
  matrix_view<ring> forward(context<Stream>& c, matrix_view<ring const> x, saved& kept) const {
    kept.x = x;
    auto y = c.template allocate<ring, 2>(x.extents());
    c.stream.enqueue([=] {
      for (index i = 0; i < x.size(); ++i) y.data()[i] = x.data()[i] * x.data()[i];
    });
    return y;
  }
  template <class Stream>
  matrix_view<ring> backward_input(context<Stream>& c, matrix_view<ring const> dy,
                                   saved& kept) const {
    auto dx = c.template allocate<ring, 2>(dy.extents());
    c.stream.enqueue([=, x = kept.x] {
      for (index i = 0; i < x.size(); ++i) dx.data()[i] = 2 * x.data()[i] * dy.data()[i];
    });
    return dx;
  }
  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

struct ring_microbatch {
  vector_view<std::int32_t const> ids;
  vector_view<std::int32_t const> labels;
  index sequences = 0;
  index length = 0;
};

struct ring_options {
  bool tied = true;    // the exit multiplies by the embedding, or by a unit of its own
  bool gated = false;  // the feed-forward layers are gated linear units
  ring_attention attention = {};
  index blocks = 3;
};

class ring_model {
 public:
  using element = ring;
  using microbatch = ring_microbatch;
  using mixer = parallel::residual<parallel::sequential<parallel::linear<ring>, ring_attention>>;
  using mlp = parallel::residual<parallel::feed_forward<ring_square>>;
  using block = parallel::sequential<mixer, mlp>;

  ring_model(index blocks, index width, index vocabulary, ring_options options = {})
      : width_(width), options_(options) {
    tokens_.weight = {"wte", {vocabulary, width}, parallel::uniform_init{0.0F, 1e9F}};
    exit_.weight = tokens_.weight;
    if (!options.tied) exit_.weight.name = "head";
    for (index i = 0; i < blocks; ++i) {
      auto const name = parallel::concat("block.", i, ".");
      mixer attend{parallel::sequential(make(name + "mix", width, width), options_.attention)};
      parallel::feed_forward<ring_square> feed;
      feed.up = make(name + "up", 3 * width, width);
      if (options.gated) feed.gate = make(name + "gate", 3 * width, width);
      feed.down = make(name + "down", width, 3 * width);
      blocks_.emplace_back(attend, mlp{feed});
    }
  }

  [[nodiscard]] std::size_t num_blocks() const { return blocks_.size(); }
  [[nodiscard]] block const& at(std::size_t i) const { return blocks_[i]; }
  [[nodiscard]] index rows(microbatch const& b) const { return b.sequences * b.length; }
  [[nodiscard]] index sequence(microbatch const& b) const { return b.length; }
  [[nodiscard]] parallel::row_share share(microbatch const& b) const {
    auto const& ranks = options_.attention.ranks;
    return context_parallel::division(ranks.rank(), ranks.size(), b.length * ranks.size()).share();
  }
  [[nodiscard]] index width() const { return width_; }

  template <class F>
  void visit_units(F&& f) {
    using uses = std::vector<parallel::parameter_base<ring>*>;
    auto const leave = static_cast<index>(blocks_.size());
    std::vector<index> ends{parallel::train::enter, leave};
    if (!options_.tied) ends.pop_back();
    f(std::string("tokens"), tokens_, ends, options_.tied ? uses{&exit_.weight} : uses{});
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      f(parallel::concat("block.", i), blocks_[i], std::vector<index>{static_cast<index>(i)},
        uses{});
    if (!options_.tied) f(std::string("head"), exit_, std::vector<index>{leave}, uses{});
  }

  template <class Stream>
  matrix_view<ring> enter(context<Stream>& c, microbatch const& b) const {
    return tokens_.forward(c, b.ids);
  }
  template <class Stream>
  void enter_backward(context<Stream>& c, microbatch const& b, matrix_view<ring const> dy) const {
    tokens_.backward_weight(c, b.ids, dy);
  }

  /// loss = Σ over labelled rows and v of (x·W_v - [v = label])².
  template <class Stream>
  void leave(context<Stream>& c, microbatch const& b, matrix_view<ring const> x,
             matrix_view<ring> dx, parallel::train::statistics<ring>& sums) const {
    auto logits = c.template allocate<ring, 2>({x.extent(0), exit_.weight.extents[0]});
    parallel::ops::matmul(c.stream, logits, x, exit_.weight.value(), {.transpose_b = true});
    c.stream.enqueue([logits, labels = b.labels, loss = &sums.loss] {
      for (index r = 0; r < logits.extent(0); ++r)
        for (index v = 0; v < logits.extent(1); ++v) {
          if (labels(r) < 0) {
            logits(r, v) = 0;
            continue;
          }
          ring const difference = logits(r, v) - (v == labels(r) ? 1U : 0U);
          *loss += difference * difference;
          logits(r, v) = 2 * difference;
        }
    });
    for (index r = 0; r < b.labels.size(); ++r) sums.tokens += b.labels(r) >= 0 ? 1 : 0;
    if (dx.extent(0) == 0) return;
    matrix_view<ring const> const gradient = logits;
    parallel::ops::matmul(c.stream, dx, gradient, exit_.weight.value());
    if (exit_.weight.has_gradient())
      parallel::ops::matmul(c.stream, exit_.weight.gradient(), gradient, x,
                            {.transpose_a = true, .accumulate = true});
  }

 private:
  static parallel::linear<ring> make(std::string const& name, index out, index in) {
    parallel::linear<ring> layer;
    layer.weight = {name + ".weight", {out, in}, parallel::uniform_init{0.0F, 1e9F}};
    layer.bias = {name + ".bias", {out}, parallel::uniform_init{0.0F, 1e9F}};
    return layer;
  }

  index width_;
  ring_options options_;
  parallel::embedding<ring> tokens_;
  parallel::embedding<ring> exit_;  // its table alone is used
  std::deque<block> blocks_;
};

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
    s.enqueue([values = ranges.values, momentum = ranges.states[0],
               gradients = ranges.gradients.elements, rate = rate] {
      for (std::size_t i = 0; i < values.size(); ++i) {
        momentum[i] = 3 * momentum[i] + gradients[i];
        values[i] -= rate * momentum[i];
      }
    });
  }
};

}  // namespace test
