// The last stage of a language model: final norm, output projection, scale and cap of the logits,
// cross entropy.
//
// Logits are computed, turned into their own gradient and multiplied back for one chunk of rows at
// a time, so that no more than a chunk of [rows, vocabulary] ever exists. In a training pass the
// product rounds them to T, as LLM Foundry's does under autocast, and the gradient overwrites them;
// without a gradient, and where the gradient of a cap needs them, they are accumulate_t<T>. Losses
// are always accumulate_t<T>. The gradient is that of the *sum* of token losses: nothing is divided
// here. Along the tensor axis the vocabulary is sliced, and only the first rank of the axis adds to
// loss and counts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/layer/norm.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/ops/loss/sliced_cross_entropy.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/pointwise/softcap.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/tensor/region.hpp>

namespace parallel::tensor {

template <class T, class Comm>
struct head {
  using accumulate = accumulate_t<T>;

  region<Comm> tensor_region;
  norm<T> norm_f;
  parameter<T, 2>
      weight;  ///< some rows of [V, D]: lm_head, or the embedding's weight with a separate gradient
  double logit_scale = 1.0;  ///< factor of the logits, applied before the cap
  double softcap = 0.0;      ///< limits the logits to ±softcap; 0: no cap
  index logits_bytes =
      index{9} << 26;  ///< limit of the logits that exist at once, at least 128 rows

  /// The rows whose logits exist at once, when one logit takes `bytes`. The logits of a chunk take
  /// at most logits_bytes, and chunks are about equal multiples of tiles of 128 rows. Every chunk
  /// reads and writes the weights' gradients again (10 bytes a weight with the read of its value)
  /// for 6 operations a row: from 4096 rows on this costs a GPU less than a tenth of the time (5888
  /// rows of 50,368 bf16 are 576 MiB), and a CPU from a tenth of those rows on. Among the counts
  /// from the smallest possible to twice that, it chooses the one that keeps a GPU's processors
  /// busiest.
  [[nodiscard]] index chunk_rows(index rows, std::size_t bytes) const {
    constexpr index tile = 128;
    auto const divide_up = [](index a, index b) { return (a + b - 1) / b; };
    // the largest slice on any rank, so that all ranks make the same exchanges
    index const columns = divide_up(weight.tensor_extents()[0], tensor_region.size());
    index const row_bytes = columns * static_cast<index>(bytes);
    index const max_rows = std::max<index>(1, logits_bytes / row_bytes / tile) * tile;
    index const min_chunks = std::max<index>(1, divide_up(rows, max_rows));
    // The gradient of x is the product with the fewest tiles, of 128 x 256, each as long as the
    // vocabulary: the number of waves in which the 132 processors of an H100 compute them.
    auto const waves = [&](index chunks) {
      index const tiles =
          divide_up(divide_up(rows, chunks), tile) * divide_up(weight.tensor_extents()[1], 256);
      return chunks * divide_up(tiles, 132);
    };
    index best_chunks = min_chunks;
    for (index chunks = min_chunks + 1; chunks <= 2 * min_chunks; ++chunks)
      if (waves(chunks) < waves(best_chunks)) best_chunks = chunks;
    return std::min(rows, divide_up(divide_up(rows, best_chunks), tile) * tile);
  }

  /// `labels` of all rows (-100: no loss), of which `loss_tokens` are not -100. Adds to `sums`
  /// (loss, tokens, correct: train::statistics). With `dx` it also writes the gradient of x and
  /// adds to the weights' gradients.
  template <class Stream, class Sums>
  void loss(context<Stream>& c, vector_view<std::int32_t const> labels, std::int64_t loss_tokens,
            matrix_view<T const> x, matrix_view<T> dx, Sums& sums) const {
    bool const backward = dx.extent(0) > 0;
    typename norm<T>::saved norm_state;
    matrix_view<T const> const normalised = norm_f.forward(c, x, norm_state);
    auto const y = tensor_region.enter(c, normalised);
    matrix_view<T> dy;
    if (backward) dy = c.template allocate<T, 2>(y.extents());
    if (backward && !capped())
      chunks<T>(c, labels, y, dy, sums);
    else
      chunks<accumulate>(c, labels, y, dy, sums);
    if (tensor_region.rank() == 0) sums.tokens += loss_tokens;
    if (!backward) return;
    auto const d_normalised = tensor_region.leave(c, addend<T>{dy});
    norm_f.backward_input_into(c, dx, d_normalised, norm_state);
    norm_f.backward_weight(c, norm_state);
  }

  /// Logits of all rows of x, scaled and capped: [rows, V] in the accumulation type; of a sliced
  /// vocabulary, this rank's columns.
  template <class Stream>
  [[nodiscard]] matrix_view<accumulate> logits(context<Stream>& c, matrix_view<T const> x) const {
    auto const out = c.template allocate<accumulate, 2>({x.extent(0), weight.extents[0]});
    logits(c, out, x);
    return out;
  }
  template <class Stream>
  void logits(context<Stream>& c, matrix_view<accumulate> out, matrix_view<T const> x) const {
    typename norm<T>::saved norm_state;
    auto const y = norm_f.forward(c, x, norm_state);
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
                   {.accumulate = begin > 0 || !c.overwrites(weight)}, sums);
    }
  }

  template <class Logit, class Stream, class Sums>
  void chunk(context<Stream>& c, vector_view<std::int32_t const> labels, matrix_view<T const> y,
             matrix_view<T> dy, ops::matmul_options gradient_options, Sums& sums) const {
    arena::scope const temporaries(c.memory);
    shape<2> const extents{y.extent(0), weight.extents[0]};
    auto logits = c.template allocate<Logit, 2>(extents);
    auto losses = c.template allocate<accumulate, 1>({y.extent(0)});
    auto correct = c.template allocate<std::uint8_t, 1>({y.extent(0)});
    bool const backward = dy.extent(0) > 0;
    matrix_view<T> dlogits;  // in place, unless the gradient of the cap needs the logits
    if (backward && capped()) dlogits = c.template allocate<T, 2>(extents);
    if constexpr (std::is_same_v<Logit, T>)
      if (backward && !capped()) dlogits = logits;
    matrix_view<Logit const> const final_logits = logits;
    ops::matmul(c.stream, logits, y, weight.value(), {.transpose_b = true});
    if constexpr (std::is_same_v<Logit, accumulate>)
      if (capped()) ops::softcap(c.stream, logits.span(), final_logits.span(), cap());
    cross_entropy(c, dlogits, losses, correct, final_logits, labels, capped() ? 1.0 : logit_scale);
    if (tensor_region.rank() == 0) {
      ops::sum(c.stream, &sums.loss, std::span<accumulate const>(losses.span()));
      ops::sum(c.stream, &sums.correct, std::span<std::uint8_t const>(correct.span()));
    }
    if (!backward) return;
    matrix_view<T const> const gradient = dlogits;
    if constexpr (std::is_same_v<Logit, accumulate>)
      if (capped())
        ops::softcap_backward(c.stream, dlogits.span(), final_logits.span(), gradient.span(),
                              cap());
    ops::matmul(c.stream, dy, gradient, weight.value());
    if (!weight.has_gradient()) return;
    gradient_options.transpose_a = true;
    ops::matmul(c.stream, weight.gradient(), gradient, y, gradient_options);
  }

  /// Cross entropy; over a sliced vocabulary with one exchange of four numbers a row.
  template <class Stream, class Logit>
  void cross_entropy(context<Stream>& c, matrix_view<T> dlogits, vector_view<accumulate> losses,
                     vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                     vector_view<std::int32_t const> labels, double scale) const {
    if (tensor_region.is_single_rank()) {
      ops::cross_entropy(c.stream, dlogits, losses, correct, logits, labels, {.scale = scale});
      return;
    }
    ops::sliced_cross_entropy_options const options{.scale = scale,
                                                    .first = weight.rows.front().begin,
                                                    .vocabulary = weight.tensor_extents()[0]};
    constexpr index numbers = ops::vocabulary_statistics_count;
    auto own_statistics = c.template allocate<accumulate, 2>({labels.extent(0), numbers});
    auto gathered =
        c.template allocate<accumulate, 3>({tensor_region.size(), labels.extent(0), numbers});
    ops::vocabulary_statistics(c.stream, own_statistics, logits, labels, options);
    tensor_region.group.all_gather(c.stream, gathered.span(),
                                   std::span<accumulate const>(own_statistics.span()));
    tensor_view<accumulate const, 3> const statistics = gathered;
    ops::sliced_cross_entropy(c.stream, dlogits, losses, correct, logits, labels, statistics,
                              options);
  }
};

}  // namespace parallel::tensor
