// Cross entropy of logits whose vocabulary is divided among ranks (Shoeybi et al., Megatron-LM,
// 2019, section 3), in two operations with one all-gather in between:
//   vocabulary_statistics  four numbers for each row, about the columns of this rank's slice;
//   sliced_cross_entropy   loss, gradient and accuracy from these numbers of all ranks.
// Megatron needs three collectives. One is enough, because sums of exponentials relative to each
// rank's own maximum can be rescaled (online softmax: Milakov, Gimelshein, 2018).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

struct sliced_cross_entropy_options {
  double scale = 1.0;          ///< MPT's logit_scale
  std::int32_t ignore = -100;  ///< label of a token without a loss
  index first = 0;             ///< the slice's first column in the whole vocabulary
  index vocabulary = 0;        ///< columns of the whole vocabulary
};

/// The statistics of a row, in this order: the greatest z = scale * logit of the slice, the sum of
/// exp(z - greatest), the z of the label (-infinity when another slice has it), and the first
/// column of the whole vocabulary that reaches the greatest.
inline constexpr index vocabulary_statistics_count = 4;

namespace detail {

inline void check_sliced_label(index label, sliced_cross_entropy_options const& options,
                               index row) {
  require(label == options.ignore || (0 <= label && label < options.vocabulary),
          "ops::sliced_cross_entropy: label ", label, " of token ", row,
          " is outside of the vocabulary of ", options.vocabulary);
}

/// The statistics of a row over the whole vocabulary, from the four of each of its `ranks` slices:
/// those of slice r begin at `first + r * stride`. Sums are in double.
struct joined_statistics {
  template <class A>
  PARALLELLM_HOST_DEVICE joined_statistics(A const* first, index ranks, index stride) {
    for (index r = 0; r < ranks; ++r)
      if (double const slice_top = double(first[r * stride]); r == 0 || slice_top > top) {
        top = slice_top;
        column = static_cast<index>(first[r * stride + 3]);
      }
    for (index r = 0; r < ranks; ++r) {
      A const* const slice = first + r * stride;
      sum += double(slice[1]) * std::exp(double(slice[0]) - top);
      label = r == 0 || double(slice[2]) > label ? double(slice[2]) : label;
    }
  }

  [[nodiscard]] PARALLELLM_HOST_DEVICE double loss() const { return std::log(sum) + top - label; }

  double top = 0;    // the greatest z = scale * logit
  double sum = 0;    // of exp(z - top) over all columns
  double label = 0;  // the z of the label
  index column = 0;  // the first column whose z is the greatest
};

}  // namespace detail

template <class A, class Logit>
struct vocabulary_statistics_arguments {
  static constexpr char const* name = "vocabulary_statistics";
  matrix_view<A> statistics;
  matrix_view<Logit const> logits;
  vector_view<std::int32_t const> labels;
  sliced_cross_entropy_options options;

  [[nodiscard]] auto operands() const { return std::tuple(statistics, logits); }
  [[nodiscard]] std::uint64_t flops() const {
    return 4U * static_cast<std::uint64_t>(logits.size());
  }
  void check() const {
    for (index m = 0; m < logits.extent(0); ++m) detail::check_sliced_label(labels(m), options, m);
  }
  [[nodiscard]] index parts() const { return logits.extent(0); }
  void compute(index m) const {
    index const columns = logits.extent(1);
    auto const z = [&](index n) { return double(options.scale) * double(logits(m, n)); };
    index best = 0;
    for (index n = 1; n < columns; ++n)
      if (z(n) > z(best)) best = n;
    double total = 0;
    for (index n = 0; n < columns; ++n) total += std::exp(z(n) - z(best));
    index const label = labels(m) - options.first;
    bool const in_slice = 0 <= label && label < columns;
    statistics(m, 0) = static_cast<A>(z(best));
    statistics(m, 1) = static_cast<A>(total);
    statistics(m, 2) = in_slice ? static_cast<A>(z(label)) : -std::numeric_limits<A>::infinity();
    statistics(m, 3) = static_cast<A>(options.first + best);
  }
};

/// vocabulary_statistics(s, statistics, logits, labels, options): the statistics [M, 4] of logits
/// [M, columns of the slice], in the type in which logits accumulate. labels [M] are columns of the
/// whole vocabulary, or options.ignore. Cost: one pass over the logits.
inline constexpr auto vocabulary_statistics = []<class Stream, class A, class L>(
                                                  Stream& s, matrix_view<A> statistics,
                                                  matrix_view<L> logits,
                                                  vector_view<std::int32_t const> labels,
                                                  sliced_cross_entropy_options options) {
  using Logit = std::remove_const_t<L>;
  static_assert(std::is_same_v<A, accumulate_t<Logit>>,
                "vocabulary_statistics: statistics must have the type in which the logits' type "
                "accumulates");
  auto constexpr name = "vocabulary_statistics";
  index const rows = logits.extent(0);
  detail::require_equal(name, "the number of rows of statistics", statistics.extent(0),
                        "that of logits", rows);
  detail::require_equal(name, "the number of statistics", statistics.extent(1),
                        "the required number", vocabulary_statistics_count);
  detail::require_equal(name, "the size of labels", labels.extent(0), "the number of rows", rows);
  run_operation(s, vocabulary_statistics_arguments<A, Logit>{
                       statistics, matrix_view<Logit const>(logits), labels, options});
};

template <class T, class Loss, class Logit>
struct sliced_cross_entropy_arguments {
  static constexpr char const* name = "sliced_cross_entropy";
  matrix_view<T> dlogits;
  vector_view<Loss> losses;
  vector_view<std::uint8_t> correct;
  matrix_view<Logit const> logits;
  vector_view<std::int32_t const> labels;
  tensor_view<accumulate_t<T> const, 3> statistics;
  sliced_cross_entropy_options options;

  [[nodiscard]] auto operands() const {
    return std::tuple(dlogits, losses, correct, logits, statistics);
  }
  [[nodiscard]] std::uint64_t flops() const {
    return dlogits.empty() ? 0 : 4 * static_cast<std::uint64_t>(logits.size());
  }
  [[nodiscard]] index parts() const { return logits.extent(0); }
  void compute(index m) const {
    index const rows = logits.extent(0);
    bool const ignored = labels(m) == options.ignore;
    detail::joined_statistics const joined(&statistics(0, m, 0), statistics.extent(0),
                                           rows * vocabulary_statistics_count);
    losses(m) = ignored ? Loss(0) : static_cast<Loss>(joined.loss());
    correct(m) = !ignored && joined.column == labels(m) && !std::isnan(joined.loss()) ? 1 : 0;
    if (dlogits.empty()) return;
    for (index n = 0; n < logits.extent(1); ++n) {
      double const z = double(options.scale) * double(logits(m, n));
      double const dz =
          std::exp(z - joined.top) / joined.sum - (options.first + n == labels(m) ? 1.0 : 0.0);
      dlogits(m, n) =
          static_cast<T>(static_cast<accumulate_t<T>>(ignored ? 0.0 : options.scale * dz));
    }
  }
};

/// sliced_cross_entropy(s, dlogits, losses, correct, logits, labels, statistics, options):
/// statistics [ranks, M, 4] are those of all slices; the other arguments are as in cross_entropy,
/// for the columns of this slice. losses and correct are those of the whole vocabulary and equal on
/// all ranks. Cost: one pass that writes the gradient.
inline constexpr auto sliced_cross_entropy = []<class Stream, class T, class Loss, class L>(
                                                 Stream& s, matrix_view<T> dlogits,
                                                 vector_view<Loss> losses,
                                                 vector_view<std::uint8_t> correct,
                                                 matrix_view<L> logits,
                                                 vector_view<std::int32_t const> labels,
                                                 tensor_view<accumulate_t<T> const, 3> statistics,
                                                 sliced_cross_entropy_options options) {
  using Logit = std::remove_const_t<L>;
  static_assert(std::is_same_v<Logit, T> || std::is_same_v<Logit, accumulate_t<T>>,
                "sliced_cross_entropy: logits must have the gradient's element type, or that in "
                "which it accumulates");
  auto constexpr name = "sliced_cross_entropy";
  detail::check_cross_entropy(name, dlogits, losses, correct, logits, labels);
  detail::require_equal(name, "the rows of statistics", statistics.extent(1), "the number of rows",
                        logits.extent(0));
  run_operation(s, sliced_cross_entropy_arguments<T, Loss, Logit>{dlogits, losses, correct,
                                                                  matrix_view<Logit const>(logits),
                                                                  labels, statistics, options});
};

}  // namespace parallel::ops
