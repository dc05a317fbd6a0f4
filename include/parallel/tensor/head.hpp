// The exit of a language model: final norm, output projection, scale and cap of the logits, cross
// entropy.
//
// Logits are made, turned into their own gradient and multiplied back a chunk of rows at a time, so
// no more than a chunk of [rows, vocabulary] ever exists. In a training pass the product rounds
// them to T, as LLM Foundry's does under autocast, and the gradient takes their place; without a
// gradient, and where the gradient of a cap needs them, they are accumulate_t<T>. Losses are that
// always. The gradient is that of the *sum* of token losses: nothing is divided here. Along the
// tensor axis the vocabulary is divided, and the axis' first rank alone speaks for loss and counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/layer/norm.hpp>
#include <parallel/ops/cross_entropy.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/ops/sliced_cross_entropy.hpp>
#include <parallel/ops/softcap.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

template <class T, class Comm>
struct head {
  using accumulate = accumulate_t<T>;

  region<Comm> of;
  norm<T> norm_f;
  parameter<T, 2>
      weight;  // some rows of [V, D]: lm_head, or the embedding's with gradients of its own
  double logit_scale = 1.0;             // logits are multiplied by it, then
  double softcap = 0.0;                 // kept within ±softcap; 0: not
  index logits_bytes = index{9} << 26;  // of logits that exist at once, but at least of 128 rows

  /// Rows whose logits exist at once, when one takes `bytes`: of at most logits_bytes, in chunks
  /// about equal that are whole tiles of 128 rows. Every chunk reads and writes the weights'
  /// gradients anew, 10 bytes a weight with reading its value, for 6 operations a row: that costs a
  /// GPU less than a tenth from 4096 rows on (5888 of 50,368 bf16 are 576 MiB), a CPU from a tenth
  /// of them. Of up to twice as many chunks as needed, as many as keep a GPU's processors busiest.
  [[nodiscard]] index chunk_rows(index rows, std::size_t bytes) const {
    constexpr index tile = 128;
    auto const up = [](index a, index b) { return (a + b - 1) / b; };
    // of equal slices, so that all ranks exchange alike
    index const columns = up(weight.tensor_extents()[0], of.size());
    index const row_bytes = columns * static_cast<index>(bytes);
    index const most = std::max<index>(1, logits_bytes / row_bytes / tile) * tile;
    index const least = std::max<index>(1, up(rows, most));
    // The gradient of x is the product with few tiles, of 128 x 256, each as long as the
    // vocabulary: how often the 132 processors of an H100 take one each.
    auto const turns = [&](index chunks) {
      index const tiles = up(up(rows, chunks), tile) * up(weight.tensor_extents()[1], 256);
      return chunks * up(tiles, 132);
    };
    index best = least;
    for (index chunks = least + 1; chunks <= 2 * least; ++chunks)
      if (turns(chunks) < turns(best)) best = chunks;
    return std::min(rows, up(up(rows, best), tile) * tile);
  }

  /// `labels` of all rows (-100: no loss), `loss_tokens` of which are not -100. Adds to `sums`
  /// (loss, tokens, correct: train::statistics); with `dx` also writes the gradient of x and adds
  /// to the weights' gradients.
  template <class Stream, class Sums>
  void loss(context<Stream>& c, vector_view<std::int32_t const> labels, std::int64_t loss_tokens,
            matrix_view<T const> x, matrix_view<T> dx, Sums& sums) const {
    bool const backward = dx.extent(0) > 0;
    typename norm<T>::saved kept;
    matrix_view<T const> const own = norm_f.forward(c, x, kept);
    auto const y = of.enter(c, own);
    matrix_view<T> dy;
    if (backward) dy = c.template allocate<T, 2>(y.extents());
    if (backward && !capped())
      chunks<T>(c, labels, y, dy, sums);
    else
      chunks<accumulate>(c, labels, y, dy, sums);
    if (of.rank() == 0) sums.tokens += loss_tokens;
    if (!backward) return;
    auto const d_own = of.leave(c, addend<T>{dy});
    norm_f.backward_input_into(c, dx, d_own, kept);
    norm_f.backward_weight(c, kept);
  }

  /// Logits of all rows of x, scaled and capped: [rows, V] in the accumulation type, of a divided
  /// vocabulary this rank's columns.
  template <class Stream>
  [[nodiscard]] matrix_view<accumulate> logits(context<Stream>& c, matrix_view<T const> x) const {
    auto const out = c.template allocate<accumulate, 2>({x.extent(0), weight.extents[0]});
    logits(c, out, x);
    return out;
  }
  template <class Stream>
  void logits(context<Stream>& c, matrix_view<accumulate> out, matrix_view<T const> x) const {
    typename norm<T>::saved kept;
    auto const y = norm_f.forward(c, x, kept);
    ops::matmul(c.stream, out, matrix_view<T const>(y), weight.value(), {.transpose_b = true});
    if (capped())
      ops::softcap(c.stream, out.span(), std::span<accumulate const>(out.span()), cap());
    else if (logit_scale != 1.0)
      ops::scale(c.stream, out.span(), static_cast<accumulate>(logit_scale));
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(norm_f, visit);
    weight.replaces_gradient = true;
    visit(weight);
  }

 private:
  [[nodiscard]] bool capped() const { return softcap > 0; }
  [[nodiscard]] ops::softcap_options cap() const { return {.cap = softcap, .scale = logit_scale}; }

  template <class Logit, class Stream, class Sums>
  void chunks(context<Stream>& c, vector_view<std::int32_t const> labels, matrix_view<T const> y,
              matrix_view<T> dy, Sums& sums) const {
    bool const backward = dy.extent(0) > 0;
    index const rows = y.extent(0);
    index const size = chunk_rows(rows, sizeof(Logit) + (backward && capped() ? sizeof(T) : 0));
    for (index begin = 0; begin < rows; begin += size) {
      index const end = std::min(begin + size, rows);
      chunk<Logit>(c, labels.slice(begin, end), y.slice(begin, end),
                   backward ? dy.slice(begin, end) : dy,
                   {.accumulate = begin > 0 || !c.overwrite_gradients}, sums);
    }
  }

  template <class Logit, class Stream, class Sums>
  void chunk(context<Stream>& c, vector_view<std::int32_t const> labels, matrix_view<T const> y,
             matrix_view<T> dy, ops::matmul_options to_gradient, Sums& sums) const {
    arena::scope const temporaries(c.memory);
    shape<2> const extents{y.extent(0), weight.extents[0]};
    auto logits = c.template allocate<Logit, 2>(extents);
    auto losses = c.template allocate<accumulate, 1>({y.extent(0)});
    auto correct = c.template allocate<std::uint8_t, 1>({y.extent(0)});
    bool const backward = dy.extent(0) > 0;
    matrix_view<T> dlogits;  // in place, unless the gradient of the cap will need the logits
    if (backward && capped()) dlogits = c.template allocate<T, 2>(extents);
    if constexpr (std::is_same_v<Logit, T>)
      if (backward && !capped()) dlogits = logits;
    matrix_view<Logit const> const finished = logits;
    ops::matmul(c.stream, logits, y, weight.value(), {.transpose_b = true});
    if constexpr (std::is_same_v<Logit, accumulate>)
      if (capped()) ops::softcap(c.stream, logits.span(), finished.span(), cap());
    compare(c, dlogits, losses, correct, finished, labels, capped() ? 1.0 : logit_scale);
    if (of.rank() == 0) {
      ops::sum(c.stream, &sums.loss, std::span<accumulate const>(losses.span()));
      ops::sum(c.stream, &sums.correct, std::span<std::uint8_t const>(correct.span()));
    }
    if (!backward) return;
    matrix_view<T const> const gradient = dlogits;
    if constexpr (std::is_same_v<Logit, accumulate>)
      if (capped())
        ops::softcap_backward(c.stream, dlogits.span(), finished.span(), gradient.span(), cap());
    ops::matmul(c.stream, dy, gradient, weight.value());
    if (!weight.has_gradient()) return;
    to_gradient.transpose_a = true;
    ops::matmul(c.stream, weight.gradient(), gradient, y, to_gradient);
  }

  /// Cross entropy; over a divided vocabulary with one exchange of four numbers a row.
  template <class Stream, class Logit>
  void compare(context<Stream>& c, matrix_view<T> dlogits, vector_view<accumulate> losses,
               vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
               vector_view<std::int32_t const> labels, double scale) const {
    if (of.is_single_rank()) {
      ops::cross_entropy(c.stream, dlogits, losses, correct, logits, labels, {.scale = scale});
      return;
    }
    ops::sliced_cross_entropy_options const options{.scale = scale,
                                                    .first = weight.rows.front().begin,
                                                    .vocabulary = weight.tensor_extents()[0]};
    constexpr index numbers = ops::vocabulary_statistics_count;
    auto own = c.template allocate<accumulate, 2>({labels.extent(0), numbers});
    auto all = c.template allocate<accumulate, 3>({of.size(), labels.extent(0), numbers});
    ops::vocabulary_statistics(c.stream, own, logits, labels, options);
    of.group.all_gather(c.stream, all.span(), std::span<accumulate const>(own.span()));
    tensor_view<accumulate const, 3> const statistics = all;
    ops::sliced_cross_entropy(c.stream, dlogits, losses, correct, logits, labels, statistics,
                              options);
  }
};

}  // namespace parallel::tensor
