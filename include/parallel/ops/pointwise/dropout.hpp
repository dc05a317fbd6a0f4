// dropout: y = x / (1 - p) with probability 1 - p, else 0 (Srivastava et al., 2014).
//
// The mask is a function of the Philox key and the global element index. So nothing is saved for
// the backward pass, which is the same call on dy, and every layout drops the same elements. An
// element is kept iff its uniform number is >= p. T is float, bf16 or double. Cost: one Philox
// block for four elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

struct dropout_options {
  float probability = 0.0F;         ///< p, of zeroing, in [0, 1]
  philox random = philox(0, 0);     ///< key of this seed, operation and step
  std::uint64_t first_element = 0;  ///< global index of x[0]
  /// If x is some columns of a wider matrix: x has `columns` contiguous columns of rows that are
  /// `whole_columns` wide. 0: all elements of x are contiguous.
  std::size_t columns = 0;
  std::size_t whole_columns = 0;

  /// The global index of x[i].
  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr std::uint64_t element(std::size_t i) const {
    return first_element + (columns == 0 ? i : i / columns * whole_columns + i % columns);
  }
};

template <class T>
struct dropout_arguments {
  static constexpr char const* name = "dropout";
  std::span<T> y;
  std::span<T const> x;
  dropout_options options;

  [[nodiscard]] auto operands() const { return std::tuple(y, x); }
  [[nodiscard]] std::uint64_t flops() const { return options.probability > 0.0F ? y.size() : 0; }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    using A = accumulate_t<T>;
    float const p = options.probability;
    A const factor = p < 1.0F ? A(1) / (A(1) - A(p)) : A(0);
    detail::for_each_in_run(part, y, [&](std::size_t i) {
      bool const is_kept = options.random.uniform(options.element(i)) >= p;
      y[i] = static_cast<T>(is_kept ? A(x[i]) * factor : A(0));
    });
  }
};

/// dropout(s, y, x, {.probability, .random, .first_element}): y[i] = x[i] / (1 - p) where
/// random.uniform(first_element + i) >= p, else 0; y may be x. Probability 0 copies. With
/// {.columns, .whole_columns}, x is some columns of a matrix, and i is replaced by the element's
/// index in that matrix.
inline constexpr auto dropout = []<class Stream, writable T>(
                                    Stream& s, std::span<T> y,
                                    std::span<std::type_identity_t<T> const> x,
                                    dropout_options options) {
  detail::require_equal("dropout", "the size of y", y.size(), "that of x", x.size());
  require(options.probability >= 0.0F && options.probability <= 1.0F,
          "ops::dropout: the probability is ", options.probability, ", but must be in [0, 1]");
  require(options.columns <= options.whole_columns, "ops::dropout: ", options.columns,
          " columns are not some of ", options.whole_columns);
  run_operation(s, dropout_arguments<T>{y, x, options});
};

}  // namespace parallel::ops
