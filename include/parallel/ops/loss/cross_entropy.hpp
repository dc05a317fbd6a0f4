// cross_entropy of logits and labels, and its gradient in the same call: z = scale * logits, loss =
// log(sum exp z) - z[label], dlogits = scale (softmax(z) - onehot(label)).
//
// Losses are per token, and the gradient is that of their SUM: nothing is divided here (the
// optimizer divides once by the number of tokens of the global batch). Logits are T or
// accumulate_t<T>, arithmetic and losses are accumulate_t<T>, and the gradient is rounded to T.
// Cost: one pass that reads the logits, and one that writes the gradient.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

struct cross_entropy_options {
  double scale = 1.0;          ///< MPT's logit_scale
  std::int32_t ignore = -100;  ///< label of a token without a loss
};

namespace detail {

/// Throws `error` unless the label, which is not the ignored one, is a token of the vocabulary.
inline void check_label(index label, index vocabulary, index row) {
  require(0 <= label && label < vocabulary, "ops::cross_entropy: label ", label, " of token ", row,
          " is outside of the vocabulary of ", vocabulary);
}

/// Throws `error` unless the results of a cross entropy and its labels fit the logits.
template <class T, class Loss, class L>
void check_cross_entropy(std::string_view name, matrix_view<T> dlogits, vector_view<Loss> losses,
                         vector_view<std::uint8_t> correct, matrix_view<L> logits,
                         vector_view<std::int32_t const> labels) {
  index const rows = logits.extent(0);
  if (!dlogits.empty()) {
    require_equal(name, "the number of rows of dlogits", dlogits.extent(0), "that of logits", rows);
    require_equal(name, "the number of columns of dlogits", dlogits.extent(1), "that of logits",
                  logits.extent(1));
  }
  require_equal(name, "the size of losses", losses.extent(0), "the number of rows", rows);
  require_equal(name, "the size of correct", correct.extent(0), "the number of rows", rows);
  require_equal(name, "the size of labels", labels.extent(0), "the number of rows", rows);
}

}  // namespace detail

template <class T, class Loss, class Logit>
struct cross_entropy_arguments {
  static constexpr char const* name = "cross_entropy";
  matrix_view<T> dlogits;
  vector_view<Loss> losses;
  vector_view<std::uint8_t> correct;
  matrix_view<Logit const> logits;
  vector_view<std::int32_t const> labels;
  cross_entropy_options options;

  [[nodiscard]] auto operands() const { return std::tuple(dlogits, losses, correct, logits); }
  /// Four operations per logit: scaling, difference, exp and sum. The gradient takes 4 more.
  [[nodiscard]] std::uint64_t flops() const {
    return (dlogits.empty() ? 4U : 8U) * static_cast<std::uint64_t>(logits.size());
  }
  void check() const {
    for (index m = 0; m < logits.extent(0); ++m)
      if (labels(m) != options.ignore) detail::check_label(labels(m), logits.extent(1), m);
  }
  [[nodiscard]] index parts() const { return logits.extent(0); }
  void compute(index m) const {
    index const vocabulary = logits.extent(1);
    index const label = labels(m);
    if (label == options.ignore) {
      losses(m) = Loss(0);
      correct(m) = 0;
      if (!dlogits.empty())
        for (index n = 0; n < vocabulary; ++n) dlogits(m, n) = static_cast<T>(accumulate_t<T>(0));
      return;
    }
    auto const z = [&](index n) { return double(options.scale) * double(logits(m, n)); };
    index best = 0;
    for (index n = 1; n < vocabulary; ++n)
      if (z(n) > z(best)) best = n;
    double const top = z(best);
    double total = 0.0;
    for (index n = 0; n < vocabulary; ++n) total += std::exp(z(n) - top);
    double const loss = std::log(total) + top - z(label);
    losses(m) = static_cast<Loss>(loss);
    correct(m) = best == label && !std::isnan(loss) ? 1 : 0;
    if (dlogits.empty()) return;
    for (index n = 0; n < vocabulary; ++n) {
      double const share = std::exp(z(n) - top) / total - (n == label ? 1.0 : 0.0);
      dlogits(m, n) = static_cast<T>(static_cast<accumulate_t<T>>(double(options.scale) * share));
    }
  }
};

struct cross_entropy_fn {
  /// Loss is float, or double for the tests in double.
  template <class Stream, class T, class Loss, class L>
  void operator()(Stream& s, matrix_view<T> dlogits, vector_view<Loss> losses,
                  vector_view<std::uint8_t> correct, matrix_view<L> logits,
                  vector_view<std::int32_t const> labels,
                  cross_entropy_options options = {}) const {
    using Logit = std::remove_const_t<L>;
    static_assert(std::is_same_v<Logit, T> || std::is_same_v<Logit, accumulate_t<T>>,
                  "cross_entropy: logits must have the gradient's element type, or that in which "
                  "it accumulates");
    detail::check_cross_entropy("cross_entropy", dlogits, losses, correct, logits, labels);
    run_operation(s,
                  cross_entropy_arguments<T, Loss, Logit>{
                      dlogits, losses, correct, matrix_view<Logit const>(logits), labels, options});
  }
};
/// cross_entropy(s, dlogits, losses, correct, logits, labels, {.scale, .ignore}): logits [M,V];
/// dlogits [M,V], or empty for no gradient, or the logits themselves if T is their type; losses,
/// labels and correct [M]. correct[m] is 1 if the label is the greatest logit; on ties the lowest
/// index counts as the greatest. An ignored row has loss 0, correct 0 and a gradient of zeros. A
/// label outside of the vocabulary is an error when the task runs; a NaN logit gives a NaN loss.
inline constexpr cross_entropy_fn cross_entropy{};

}  // namespace parallel::ops
